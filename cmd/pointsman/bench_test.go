package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// BenchmarkAgent measures the whole agent as a user has it: from exec to the
// last transaction, against one plain nft -f of the same elements in the same
// run, its memory, one endpoint leaving, and a restart.
func BenchmarkAgent(b *testing.B) {
	binary := filepath.Join(b.TempDir(), "pointsman")
	benchRun(b, "go", "build", "-o", binary, ".")
	for _, size := range []struct{ services, endpoints int }{{1000, 10}, {5000, 10}, {10000, 10}, {40000, 1}} {
		b.Run(fmt.Sprintf("services=%d/endpoints=%d", size.services, size.endpoints), func(b *testing.B) {
			fleet := newBenchFleet(b, binary, size.services, size.endpoints)
			for b.Loop() {
				fleet.measure(b)
			}
		})
	}
}

// benchFleet is a manifests directory with one file for each Service and its
// slice.
type benchFleet struct {
	binary, dir, state string
	services, n        int
}

func newBenchFleet(b *testing.B, binary string, services, endpoints int) *benchFleet {
	f := &benchFleet{binary: binary, dir: b.TempDir(), state: b.TempDir(), services: services, n: endpoints}
	for i := range services {
		f.write(b, i, endpoints)
	}
	return f
}

func (f *benchFleet) write(b *testing.B, i, endpoints int) {
	var sb strings.Builder
	fmt.Fprintf(&sb, `apiVersion: v1
kind: Service
metadata:
  name: svc-%d
  namespace: team-%d
spec:
  clusterIP: 10.%d.%d.%d
  ports:
  - name: http
    port: 80
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: svc-%d
  namespace: team-%d
  labels: {kubernetes.io/service-name: svc-%d}
addressType: IPv4
ports:
- name: http
  port: 8080
endpoints:
`, i, i%50, 96+i/62500, i/250%250, i%250+1, i, i%50, i)
	for j := range endpoints {
		x := i*f.n + j
		fmt.Fprintf(&sb, "- addresses: [10.%d.%d.%d]\n  nodeName: n%d\n", 128+x>>16, x>>8&255, x&255, x%20)
	}
	if err := os.WriteFile(filepath.Join(f.dir, fmt.Sprintf("svc-%d.yaml", i)), []byte(sb.String()), 0o644); err != nil {
		b.Fatal(err)
	}
}

func (f *benchFleet) measure(b *testing.B) {
	plain := f.plain(b)
	began := time.Now()
	a := f.start(b)
	cold := a.next(b).at.Sub(began)
	b.ReportMetric(cold.Seconds(), "cold-s")
	b.ReportMetric(cold.Seconds()/plain.Seconds(), "cold/plain")
	b.ReportMetric(a.peakMiB(b), "peak-MiB")
	f.leave(b, a)
	a.stop(b)
	f.restart(b)
	benchRun(b, "nft", "flush", "ruleset")
}

// plain loads the same elements with nft alone.
func (f *benchFleet) plain(b *testing.B) time.Duration {
	rules := filepath.Join(b.TempDir(), "rules.nft")
	out, err := exec.Command(f.binary, "render", "--node-name", "n1", f.dir).Output()
	if err == nil {
		err = os.WriteFile(rules, out, 0o644)
	}
	if err != nil {
		b.Fatal(err)
	}
	began := time.Now()
	benchRun(b, "nft", "-f", rules)
	took := time.Since(began)
	benchRun(b, "nft", "flush", "ruleset")
	b.ReportMetric(took.Seconds(), "plain-s")
	return took
}

// settleTime is what the watcher waits for by design.
const settleTime = 250 * time.Millisecond

// leave takes one endpoint out of one Service after the other, and gives the
// medians of the time from the file's writing to the new rules in the kernel,
// beyond the settle time, and of the part that nft took.
func (f *benchFleet) leave(b *testing.B, a *benchAgent) {
	var total, nft []time.Duration
	for i := range 21 {
		began := time.Now()
		f.write(b, i*37%f.services, f.n-1)
		p := a.next(b)
		total = append(total, p.at.Sub(began)-settleTime)
		nft = append(nft, p.took)
	}
	slices.Sort(total)
	slices.Sort(nft)
	b.ReportMetric(float64(total[10].Microseconds())/1000, "leave-ms")
	b.ReportMetric(float64(nft[10].Microseconds())/1000, "leave-sync-ms")
	for i := range 21 {
		f.write(b, i*37%f.services, f.n)
	}
	a.next(b)
}

// restart starts the agent over a kernel that is right, and gives what it
// wrote.
func (f *benchFleet) restart(b *testing.B) {
	began := time.Now()
	a := f.start(b)
	poll := time.NewTicker(5 * time.Millisecond)
	defer poll.Stop()
	for !a.healthy() {
		<-poll.C
	}
	b.ReportMetric(time.Since(began).Seconds(), "restart-s")
	b.ReportMetric(a.written(b), "restart-elements")
	a.stop(b)
}

// benchAgent is a running agent.
type benchAgent struct {
	cmd *exec.Cmd
	log *bufio.Scanner
}

func (f *benchFleet) start(b *testing.B) *benchAgent {
	cmd := exec.Command(f.binary, "run", "--manifests", f.dir, "--state-dir", f.state, "--socket", filepath.Join(f.state, "sock"), "--node-name", "n1",
		"--log-format", "json", "--healthz-listen", "127.0.0.1:10256")
	stderr, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { cmd.Process.Kill() })
	return &benchAgent{cmd: cmd, log: bufio.NewScanner(stderr)}
}

// programmed is a line of the log that tells of a change in the kernel.
type programmed struct {
	at   time.Time
	took time.Duration
}

// next waits for the IPv4 table's next change.
func (a *benchAgent) next(b *testing.B) programmed {
	for a.log.Scan() {
		var line struct {
			Time        time.Time
			Msg, Family string
			Took        time.Duration
		}
		if json.Unmarshal(a.log.Bytes(), &line) == nil && line.Msg == "programmed" && line.Family == "ip" {
			return programmed{line.Time, line.Took}
		}
	}
	b.Fatal("the agent ended")
	return programmed{}
}

func (a *benchAgent) stop(b *testing.B) {
	if err := a.cmd.Process.Signal(os.Interrupt); err != nil {
		b.Fatal(err)
	}
	for a.log.Scan() { // to the end, or the agent would wait for its log to be read
	}
	if err := a.cmd.Wait(); err != nil {
		b.Fatal(err)
	}
}

// peakMiB is the agent's own memory at its peak; nft's is apart.
func (a *benchAgent) peakMiB(b *testing.B) float64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", a.cmd.Process.Pid))
	if err != nil {
		b.Fatal(err)
	}
	var kib float64
	_, rest, _ := strings.Cut(string(text), "VmHWM:")
	if _, err := fmt.Sscan(rest, &kib); err != nil {
		b.Fatal(err)
	}
	return kib / 1024
}

func (a *benchAgent) healthy() bool {
	resp, err := http.Get("http://127.0.0.1:10256/healthz")
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// written is the number of elements that the agent says it has written.
func (a *benchAgent) written(b *testing.B) float64 {
	resp, err := http.Get("http://127.0.0.1:10249/metrics")
	if err != nil {
		b.Fatal(err)
	}
	defer resp.Body.Close()
	sum := 0.0
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if name, value, _ := strings.Cut(lines.Text(), " "); strings.HasPrefix(name, "pointsman_nftables_elements_written_total") {
			var n float64
			if _, err := fmt.Sscan(value, &n); err != nil {
				b.Fatal(err)
			}
			sum += n
		}
	}
	return sum
}

func benchRun(b *testing.B, name string, args ...string) {
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		b.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
}
