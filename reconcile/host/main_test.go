package host

import (
	"context"
	"os/exec"
	"strings"
	"testing"
	"time"

	"pointsman/reconcile/lab"
)

// The tests share one network namespace, so none of them is parallel.
func TestMain(m *testing.M) { lab.Isolated(m) }

// patience is how long a test waits for what the kernel does by itself.
const patience = time.Minute

func ip(t testing.TB, lines ...string) {
	t.Helper()
	for _, line := range lines {
		run(t, "", "ip", strings.Fields(line)...)
	}
}

// nft runs a script as one transaction.
func nft(t testing.TB, script string) {
	t.Helper()
	run(t, script, "nft", "-f", "-")
}

func run(t testing.TB, input, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...) // not t.Context(): cleanups run commands too
	cmd.Stdin = strings.NewReader(input)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v: %s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// veth makes a pair of interfaces for one test. Both ends are in this
// namespace; a has carrier once b is up, and the lower index.
func veth(t testing.TB, a, b string) {
	t.Helper()
	ip(t, "link add "+b+" type veth peer name "+a)
	t.Cleanup(func() { ip(t, "link del "+a) })
}

// start runs something for the length of a test, which fails if it does not
// end in good order.
func start(t testing.TB, run func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}

// await waits for signals until what they tell of is there.
func await(t testing.TB, signal <-chan struct{}, what string, there func() bool) {
	t.Helper()
	deadline := time.After(patience)
	for !there() {
		select {
		case <-signal:
		case <-deadline:
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}
