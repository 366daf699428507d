package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"pointsman/reconcile"
)

// watched is an agent that comes by its manifests through git, and has a fleet
// that it can't hear: nothing that can be said of a host is missing.
type watched struct {
	*world
	*daemon
	repo        fleetRepo
	dest, fault string // while the file fault is there, nft fails
}

func newWatched(t *testing.T) *watched {
	w := &watched{world: newWorld(t, 1)}
	w.repo = fleetRepo{t, filepath.Join(w.dir, "repo")}
	w.dest, w.fault = filepath.Join(w.dir, "dest"), filepath.Join(w.dir, "fault")
	if err := os.Mkdir(w.repo.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	w.repo.git("init", "-q", "-b", "main")
	w.manifests = filepath.Join(w.dest, "current")
	stub := stubNft(t, fmt.Sprintf(`if test -e %s; then echo "the fault that the test made" >&2; exit 1; fi`, w.fault))
	w.daemon = w.begin(w.Nodes[0], stub, "--gossip-bind", "192.0.2.99", "--gossip-insecure")
	return w
}

// push commits a file and publishes it; sync ends with a code.
func (w *watched) push(text string, want int) {
	w.repo.Helper()
	w.repo.commit("web.yaml", text)
	cmd := exec.Command("pointsman", "sync", "--repo", w.repo.dir, "--dest", w.dest)
	if out, _ := cmd.CombinedOutput(); cmd.ProcessState.ExitCode() != want {
		w.repo.Fatalf("exit code %d, not %d: %s", cmd.ProcessState.ExitCode(), want, out)
	}
}

// answers waits until /healthz has a code and says a text; /livez is well all
// the time, and both have kube-proxy's keys.
func (w *watched) answers(when string, code int, text string) {
	w.repo.Helper()
	eventually(w.repo.T, func() error {
		got, body, err := w.get("http://127.0.0.1:10256/healthz")
		if err == nil && (got != code || !strings.Contains(string(body), text)) {
			err = fmt.Errorf("%s: %d %s, want %d and %q", when, got, body, code, text)
		}
		return err
	})
	live, body, err := w.get("http://127.0.0.1:10256/livez")
	var keys struct{ LastUpdated, CurrentTime *string }
	if err == nil {
		err = json.Unmarshal(body, &keys)
	}
	if err != nil || live != http.StatusOK || keys.CurrentTime == nil || keys.LastUpdated == nil && !strings.Contains(text, "yet") {
		w.repo.Errorf("%s: /livez says %d %s (%v)", when, live, body, err)
	}
}

// TestWatched: what those learn who watch an agent, in each of its states.
func TestWatched(t *testing.T) {
	t.Parallel()
	w := newWatched(t)
	web := func(port string) string {
		return service("web", "clusterIP: 10.96.0.1, ports: [{name: http, port: "+port+"}]") + "\n---\n" + slice("web/v4", http8080, "10.20.0.11@n1")
	}
	w.answers("nothing to serve", http.StatusServiceUnavailable, "nftables: not programmed yet")
	w.push(web("80"), 0)
	w.answers("serving", http.StatusOK, `"healthy":true`)
	for _, path := range []string{"healthz", "livez"} {
		if code := must[int](t)(w.head(path)); code != http.StatusOK {
			t.Errorf("HEAD of %s: %d", path, code)
		}
	}
	w.do("drain", "node")
	w.answers("drained", http.StatusServiceUnavailable, `"drained":true`)
	w.do("undrain", "node")
	w.answers("undrained", http.StatusOK, "")
	w.push(strings.Replace(web("80"), "clusterIP", "clusterip", 1)+"\n---\n"+service("shop", "clusterIP: 10.96.0.3, "+http80), exitWarnings)
	w.answers("stale", http.StatusOK, "stale manifests: the last good version of Service default/web is served")
	w.programs(2)
	if err := os.WriteFile(w.fault, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	w.push(web("81"), 0)
	w.answers("nft fails", http.StatusServiceUnavailable, "the fault that the test made")
	if w.metric("pointsman_healthy") != 0 || w.metric("pointsman_loop_alive") != 1 {
		t.Error("the metrics say otherwise")
	}
	w.hears("problems", "the fault that the test made", `"trouble":["fleet: `, func() {
		if err := os.Remove(w.fault); err != nil {
			t.Error(err)
		}
	})
	w.answers("healed", http.StatusOK, "")
	w.programs(3) // this change, its wait for nft included, and nothing else
	w.checkMetricsPage(t)
	w.push("nonsense", exitError)
	if out := must[string](t)(w.ctl("get", "problems")); !strings.Contains(out, "sync: ") {
		t.Errorf("no word of the commit that is refused:\n%s", out)
	}
}

// hears makes a change, of which those who watch are told as soon as it's known: an
// asker whose time is over sees it in any case when it asks again.
func (a *daemon) hears(what, before, after string, change func()) {
	a.t.Helper()
	p := poller{socket: a.socket(), path: "/v1/" + what + "?"}
	var answer json.RawMessage
	if _, err := p.next(a.t.Context(), &answer); err != nil || !strings.Contains(string(answer), before) {
		a.t.Errorf("%s: %v, no %q in %s", what, err, before, answer)
	}
	told := make(chan error, 1)
	go func() {
		fresh, err := true, error(nil)
		for fresh && err == nil && !strings.Contains(string(answer), after) {
			fresh, err = p.next(a.t.Context(), &answer)
		}
		told <- err
	}()
	change()
	if err := <-told; err != nil || !strings.Contains(string(answer), after) {
		a.t.Errorf("%s: %v, no %q in %s", what, err, after, answer)
	}
}

// head asks for the headers alone, as some balancers do.
func (a *daemon) head(path string) (code int, err error) {
	err = a.node.Do(func() error {
		conn, err := net.Dial("tcp", "127.0.0.1:10256")
		if err != nil {
			return err
		}
		defer conn.Close()
		if _, err := fmt.Fprintf(conn, "HEAD /%s HTTP/1.0\r\n\r\n", path); err != nil {
			return err
		}
		resp, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: http.MethodHead})
		if err == nil {
			code = resp.StatusCode
		}
		return err
	})
	return code, err
}

// programs waits until just so many changes of the manifests are in the kernel.
// /healthz tells of a load before the kernel has it.
func (w *watched) programs(want float64) {
	w.repo.Helper()
	eventually(w.repo.T, func() error {
		// Each but the first waited until its files held still.
		if n, sum := w.latency(reconcile.Manifests); n != want || sum < (want-1)*0.25 {
			return fmt.Errorf("%v changes of manifests programmed, not %v, in %v s", n, want, sum)
		}
		return nil
	})
}

// latency gives how many changes of a cause were programmed, and the sum of the
// time that it took, in seconds.
func (a *daemon) latency(c reconcile.Cause) (n, sum float64) {
	of := func(what string) float64 {
		return a.metric(`pointsman_network_programming_duration_seconds_` + what + `\{cause="` + string(c) + `"\}`)
	}
	return of("count"), of("sum")
}
