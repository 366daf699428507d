package main

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"pointsman/reconcile/lab"
)

// row is one thing that is true of a world: what becomes of new connections
// from a host to an address. Its zero outcome is that they work.
type row struct {
	name  string
	from  *lab.Host
	proto string // TCP where none is named
	to    string
	want  lab.Outcome // of every connection
	by    string      // the backends that share them, if they work
	seen  string      // the client's address as the backends see it, if that matters
}

// few is how many connections a row makes, and many what it makes at most
// until each of its backends has got one: of six backends one is left out of
// 200 random connections once in 10^15 runs.
const (
	few  = 5
	many = 200
)

// silence is how long nothing must come back where packets are dropped.
const silence = 300 * time.Millisecond

// check checks each row in a test of its own.
func check(t *testing.T, rows ...row) {
	t.Helper()
	for _, r := range rows {
		t.Run(r.title(), func(t *testing.T) {
			if err := r.check(t); err != nil {
				t.Error(err)
			}
		})
	}
}

// await waits until a row is true.
func await(t *testing.T, r row) time.Duration {
	t.Helper()
	return eventually(t, func() error { return r.check(t) })
}

func (r row) title() string {
	if r.name != "" {
		return r.name
	}
	title := fmt.Sprintf("%s to %s/%s", r.from, r.to, r.protocol())
	if r.want != "" && r.want != lab.OK {
		title += " is " + string(r.want)
	}
	return title
}

func (r row) protocol() string {
	if r.proto == "" {
		return lab.TCP
	}
	return r.proto
}

func (r row) check(t *testing.T) error {
	if r.want == "" || r.want == lab.OK {
		return r.works(t)
	}
	timeout := deadline
	if r.want == lab.Timeout {
		timeout = silence
	}
	got := r.from.Connect(t.Context(), r.protocol(), addrPort(r.to), timeout)
	// A datagram that is refused on the host it comes from is told of by send
	// itself.
	atOnce := r.want == lab.Refused && r.protocol() != lab.TCP && errors.Is(got.Err, syscall.EPERM)
	if got.Outcome != r.want && !atOnce {
		return fmt.Errorf("got %s, want %s", got, r.want)
	}
	return nil
}

// works makes connections until each of the backends has answered, and no
// others.
func (r row) works(t *testing.T) error {
	missing := strings.Fields(r.by)
	for n := 0; n < few || len(missing) > 0; n++ {
		got := r.from.Connect(t.Context(), r.protocol(), addrPort(r.to), lab.Patience)
		switch {
		case got.Outcome != lab.OK:
			return fmt.Errorf("connection %d: %s", n, got)
		case !slices.Contains(strings.Fields(r.by), got.Backend):
			return fmt.Errorf("connection %d: by %s, want %s", n, got, r.by)
		case r.seen != "" && got.Source.Addr() != netip.MustParseAddr(r.seen):
			return fmt.Errorf("connection %d: by %s, want %s", n, got, r.seen)
		case n == many:
			return fmt.Errorf("%d connections, and none of them by %s", many, missing)
		}
		missing = slices.DeleteFunc(missing, func(b string) bool { return b == got.Backend })
	}
	return nil
}
