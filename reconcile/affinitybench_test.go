package reconcile

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"pointsman/reconcile/nft"
)

// clingy is simpleInput with affinity.
func clingy(services, endpoints int) *Input {
	in := simpleInput(services, endpoints)
	for _, s := range in.Services {
		s.Affinity = 3 * time.Hour
	}
	return in
}

// loading gives the time to plan and load an input into a kernel that has
// nothing.
func loading(b *testing.B, in *Input) cost {
	b.Helper()
	k, p := openKernel(b, nft.IPv4), NewPlanner(nft.IPv4)
	runtime.GC()
	began := now()
	if err := k.Load(context.Background()); err != nil {
		b.Fatal(err)
	}
	if _, err := k.Sync(context.Background(), p.Plan(in, k.Group)); err != nil {
		b.Fatal(err)
	}
	took := since(began)
	if err := k.Cleanup(context.Background()); err != nil {
		b.Fatal(err)
	}
	return took
}

// BenchmarkAffinity loads Services with affinity, ten endpoints each. x-250 and
// x-500 are their time against that of 250 and of 500 of them, x-none against
// that of as many Services without affinity.
func BenchmarkAffinity(b *testing.B) {
	const endpoints = 10
	for _, n := range []int{500, 1000} {
		b.Run(fmt.Sprintf("%dx%d", n, endpoints), func(b *testing.B) {
			inputs := map[string]*Input{"x-250": clingy(250, endpoints), "x-500": clingy(500, endpoints), "x-none": simpleInput(n, endpoints)}
			all, others := cost{}, map[string]*cost{}
			in := clingy(n, endpoints)
			loading(b, inputs["x-250"]) // the first one is slower
			for b.Loop() {
				all.add(loading(b, in))
				for name, other := range inputs {
					if others[name] == nil {
						others[name] = &cost{}
					}
					others[name].add(loading(b, other))
				}
			}
			for name, other := range others {
				b.ReportMetric(float64(all.wall)/float64(other.wall), name)
				b.ReportMetric(float64(all.cpu)/float64(other.cpu), "cpu-"+name)
			}
			b.ReportMetric(all.wall.Seconds()/float64(b.N), "wall-s/op")
			b.ReportMetric(all.cpu.Seconds()/float64(b.N), "cpu-s/op")
		})
	}
}
