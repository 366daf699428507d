package reconcile

import (
	"context"
	"fmt"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"pointsman/reconcile/host"
	"pointsman/reconcile/nft"
)

// sizes are Services x endpoints.
var sizes = [][2]int{{1000, 10}, {5000, 10}, {10000, 10}, {40000, 1}}

func forSizes(b *testing.B, bench func(b *testing.B, in *Input)) {
	for _, s := range sizes {
		in := simpleInput(s[0], s[1])
		b.Run(fmt.Sprintf("%dx%d", s[0], s[1]), func(b *testing.B) { bench(b, in) })
	}
}

// plainLoad gives the time of one plain `nft -f` of a ruleset in a table of
// its own: the least that any program needs.
func plainLoad(b *testing.B, text string) cost {
	b.Helper()
	text = strings.ReplaceAll(text, "ip pointsman", "ip plain")
	cmd := exec.Command("nft", "-f", "-")
	cmd.Stdin = strings.NewReader(text)
	began := now()
	if out, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("%v: %.500s", err, out)
	}
	took := since(began)
	run(b, "nft delete table ip plain")
	return took
}

// cost is the time that something took, and the processors' time, of this
// process and of the nft that it ran: on a busy machine only that says much.
type cost struct{ wall, cpu time.Duration }

func now() cost {
	c := cost{wall: time.Duration(time.Now().UnixNano())}
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var u syscall.Rusage
		if err := syscall.Getrusage(who, &u); err == nil {
			c.cpu += time.Duration(u.Utime.Nano() + u.Stime.Nano())
		}
	}
	return c
}

func since(began cost) cost {
	n := now()
	return cost{n.wall - began.wall, n.cpu - began.cpu}
}

func (c *cost) add(o cost) { c.wall, c.cpu = c.wall+o.wall, c.cpu+o.cpu }

// BenchmarkColdLoad loads everything into a kernel that has nothing. x-plain
// is its transactions' time against one plain `nft -f` of the same commands;
// all-x-plain is with planning.
func BenchmarkColdLoad(b *testing.B) {
	forSizes(b, func(b *testing.B, in *Input) {
		text := nft.Render(NewPlanner(nft.IPv4).Plan(in, nil))
		var all, transactions, plain cost
		for b.Loop() {
			k, p := openKernel(b, nft.IPv4), NewPlanner(nft.IPv4)
			plain.add(plainLoad(b, text))
			runtime.GC()
			began := now()
			if err := k.Load(context.Background()); err != nil {
				b.Fatal(err)
			}
			want := p.Plan(in, k.Group)
			planned := now()
			if _, err := k.Sync(context.Background(), want); err != nil {
				b.Fatal(err)
			}
			transactions.add(since(planned))
			all.add(since(began))
			if err := k.Cleanup(context.Background()); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(transactions.wall)/float64(plain.wall), "x-plain")
		b.ReportMetric(float64(transactions.cpu)/float64(plain.cpu), "cpu-x-plain")
		b.ReportMetric(float64(all.cpu)/float64(plain.cpu), "all-cpu-x-plain")
		b.ReportMetric(plain.cpu.Seconds()/float64(b.N), "plain-cpu-s/op")
		b.ReportMetric(all.cpu.Seconds()/float64(b.N), "cpu-s/op")
		b.ReportMetric(all.wall.Seconds()/float64(b.N), "wall-s/op")
	})
}

// loaded gives a kernel that holds the input.
func loaded(b *testing.B, in *Input) (*nft.Kernel, *Planner) {
	k, p := openKernel(b, nft.IPv4), NewPlanner(nft.IPv4)
	syncTo(b, k, p, in)
	syncTo(b, k, p, in)
	return k, p
}

// BenchmarkOneEndpoint lets one endpoint leave or come back.
func BenchmarkOneEndpoint(b *testing.B) {
	forSizes(b, func(b *testing.B, in *Input) {
		k, p := loaded(b, in)
		less := without(in, 500, 0)
		var plan, sync cost
		elements := 0
		for i := 0; b.Loop(); i++ {
			next := less
			if i%2 == 1 {
				next = in
			}
			began := now()
			want := p.Next(next, k)
			plan.add(since(began))
			began = now()
			stats, err := k.Sync(context.Background(), want)
			if err != nil {
				b.Fatal(err)
			}
			sync.add(since(began))
			elements += stats.Elements
		}
		b.ReportMetric(plan.cpu.Seconds()*1000/float64(b.N), "plan-cpu-ms/op")
		b.ReportMetric(sync.cpu.Seconds()*1000/float64(b.N), "sync-cpu-ms/op")
		b.ReportMetric(sync.wall.Seconds()*1000/float64(b.N), "sync-wall-ms/op")
		b.ReportMetric(float64(elements)/float64(b.N), "elements/op")
	})
}

// BenchmarkRestart starts with a kernel that is right.
func BenchmarkRestart(b *testing.B) {
	forSizes(b, func(b *testing.B, in *Input) {
		k, _ := loaded(b, in)
		var reading cost
		for b.Loop() {
			k.Forget(false)
			began := now()
			if err := k.Load(context.Background()); err != nil {
				b.Fatal(err)
			}
			reading.add(since(began))
			if s := syncTo(b, k, NewPlanner(nft.IPv4), in); s != (nft.Stats{}) {
				b.Fatalf("sent %+v", s)
			}
		}
		b.ReportMetric(reading.cpu.Seconds()*1000/float64(b.N), "read-cpu-ms/op")
		b.ReportMetric(reading.wall.Seconds()*1000/float64(b.N), "read-wall-ms/op")
	})
}

// BenchmarkPlan plans after one Service has changed, and from nothing.
func BenchmarkPlan(b *testing.B) {
	forSizes(b, func(b *testing.B, in *Input) {
		b.Run("all", func(b *testing.B) {
			for b.Loop() {
				NewPlanner(nft.IPv4).Plan(in, nil)
			}
		})
		b.Run("one", func(b *testing.B) {
			p := NewPlanner(nft.IPv4)
			held := p.Plan(in, nil).Groups
			less := without(in, 500, 0)
			for i := 0; b.Loop(); i++ {
				next := less
				if i%2 == 1 {
					next = in
				}
				held = p.Plan(next, func(id string) *nft.Group { return held[id] }).Groups
			}
		})
	})
}

// BenchmarkMemory tells how much memory the agent keeps: the plan of what is
// held and the planner's memory.
func BenchmarkMemory(b *testing.B) {
	forSizes(b, func(b *testing.B, in *Input) {
		for b.Loop() {
			k, err := nft.Open(nft.IPv4, schema, host.Generation)
			if err != nil {
				b.Fatal(err)
			}
			p := NewPlanner(nft.IPv4)
			before := heap()
			syncTo(b, k, p, in)
			syncTo(b, k, p, in)
			b.ReportMetric(float64(heap()-before)/(1<<20), "MiB-kept")
			runtime.KeepAlive(p)
			if err := k.Cleanup(context.Background()); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
