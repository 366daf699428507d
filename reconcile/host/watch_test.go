package host

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

func watch(t *testing.T, delay time.Duration) *Watcher {
	t.Helper()
	w, err := NewWatcher(delay, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	start(t, w.Run)
	return w
}

func TestWatcherFollowsAddresses(t *testing.T) {
	w := watch(t, 5*time.Millisecond)
	if w.Latest().Has(netip.MustParseAddr("192.0.2.10")) || !w.Latest().V4.Enabled {
		t.Fatalf("before: %+v", w.Latest())
	}
	veth(t, "pma", "pmb")
	ip(t, "link set pma up", "link set pmb up")
	steps := []struct {
		do   string
		want func(Addrs) bool
	}{
		{"addr add 192.0.2.10/24 dev pma", has("192.0.2.10")},
		{"addr add 2001:db8::10/64 dev pma nodad", has("2001:db8::10")},
		{"route add default via 192.0.2.1", func(a Addrs) bool { return len(a.V4.Defaults) == 1 }},
		{"-6 route add default via fe80::1 dev pma", func(a Addrs) bool { return len(a.V6.Defaults) == 1 }},
		{"link set pma down", func(a Addrs) bool {
			return len(a.V4.Defaults) == 0 && !has("2001:db8::10")(a) && a.V4.Addresses[0].Traits == LinkDown
		}},
		{"link set pma name pmc", func(a Addrs) bool { return a.V4.Addresses[0].Link == "pmc" }},
		{"link set pmc name pma", func(a Addrs) bool { return a.V4.Addresses[0].Link == "pma" }},
		{"addr del 192.0.2.10/24 dev pma", func(a Addrs) bool { return len(a.V4.Addresses) == 0 }},
	}
	for _, s := range steps {
		ip(t, s.do)
		await(t, w.C(), s.do, func() bool { return s.want(w.Latest()) })
	}
}

func has(addr string) func(Addrs) bool {
	return func(a Addrs) bool { return a.Has(netip.MustParseAddr(addr)) }
}

// fakeHost has the addresses that a test gives it.
type fakeHost struct {
	mu       sync.Mutex
	readings int
	now      Addrs
	err      error
}

func (h *fakeHost) read() (Addrs, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.readings++
	return h.now, h.err
}

// renumber gives the host one address, or makes it unreadable.
func (h *fakeHost) renumber(addr string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.now = Addrs{V4: Stack{Enabled: true, Addresses: []Address{{Addr: netip.MustParseAddr(addr)}}}}
	h.err = err
}

func (h *fakeHost) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.readings
}

// advance lets the time in a synctest bubble pass, and what is due be done.
func advance(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func signalled(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func TestFollowReadsOnceABurst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &fakeHost{}
		w := newWatcher(100*time.Millisecond, h.read)
		go w.follow(t.Context())
		h.renumber("192.0.2.10", nil)
		for range 9 { // over 90 ms
			poke(w.stirred)
			advance(10 * time.Millisecond)
		}
		synctest.Wait()
		if h.count() != 0 || signalled(w.C()) {
			t.Fatalf("%d readings before the delay was over", h.count())
		}
		advance(10 * time.Millisecond)
		if h.count() != 1 || !signalled(w.C()) || !w.Latest().Has(netip.MustParseAddr("192.0.2.10")) {
			t.Fatalf("%d readings, latest %+v", h.count(), w.Latest())
		}
		advance(time.Hour)
		if h.count() != 1 {
			t.Errorf("%d readings of a host at rest", h.count())
		}
	})
}

func TestFollowSignalsOnlyChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &fakeHost{}
		w := newWatcher(100*time.Millisecond, h.read)
		go w.follow(t.Context())
		for i, addr := range []string{"192.0.2.10", "192.0.2.10", "192.0.2.11"} {
			h.renumber(addr, nil)
			poke(w.stirred)
			advance(time.Second)
			if got, want := signalled(w.C()), i != 1; got != want {
				t.Errorf("reading %d: signalled %v", i, got)
			}
		}
	})
}

func TestFollowKeepsTheLastGoodReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &fakeHost{}
		w := newWatcher(100*time.Millisecond, h.read)
		var log bytes.Buffer
		w.log = slog.New(slog.NewTextHandler(&log, nil))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go w.follow(ctx)
		h.renumber("192.0.2.11", errors.New("no memory"))
		poke(w.stirred)
		advance(3 * readRetry)
		if h.count() != 3 || signalled(w.C()) {
			t.Fatalf("%d readings", h.count())
		}
		if n := strings.Count(log.String(), "no memory"); n != 1 {
			t.Errorf("it's logged %d times", n)
		}
		h.renumber("192.0.2.10", nil)
		advance(readRetry)
		if !signalled(w.C()) || !w.Latest().Has(netip.MustParseAddr("192.0.2.10")) {
			t.Fatal("the reading was not repeated")
		}
	})
}

func TestConcernsAddrs(t *testing.T) {
	message := func(kind uint16, payload ...byte) []byte { return frame(kind, payload) }
	route := func(bits, table byte) []byte {
		return message(unix.RTM_NEWROUTE, 2, bits, 0, 0, table, 0, 0, 0, 0, 0, 0, 0)
	}
	tests := map[string]struct {
		data []byte
		want bool
	}{
		"nothing":            {nil, false},
		"default route":      {route(0, unix.RT_TABLE_MAIN), true},
		"another route":      {route(24, unix.RT_TABLE_MAIN), false},
		"another table":      {route(0, 100), false},
		"behind others":      {append(route(24, unix.RT_TABLE_MAIN), route(0, unix.RT_TABLE_MAIN)...), true},
		"route, cut short":   {message(unix.RTM_DELROUTE, 2, 24), true},
		"message, cut short": {route(24, unix.RT_TABLE_MAIN)[:20], true},
		"address":            {message(unix.RTM_DELADDR), true},
		"link":               {message(unix.RTM_NEWLINK), true},
	}
	for name, tt := range tests {
		if got := concernsAddrs(tt.data); got != tt.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
