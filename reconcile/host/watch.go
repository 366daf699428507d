package host

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
)

const (
	// addressBuffer holds some thousand notifications; a thousand containers
	// starting at once send that many. An overflow costs one more reading.
	addressBuffer = 1 << 20

	// readRetry is how long a failed reading is left alone.
	readRetry = time.Second
)

// Watcher follows this host's addresses.
type Watcher struct {
	events  *socket
	stirred chan struct{} // something may have changed
	changed chan struct{}
	latest  atomic.Pointer[Addrs]
	delay   time.Duration
	read    func() (Addrs, error)
	log     *slog.Logger
	failure string // why the last reading failed; follow's alone
}

// NewWatcher subscribes, then reads: Latest is true from the beginning, and
// no change after it is missed. Run must be called, or the socket leaks.
//
// Events come in bursts (an interface that comes up sends a dozen), so
// addresses are read once the delay after the first of a burst is over.
func NewWatcher(delay time.Duration, log *slog.Logger) (*Watcher, error) {
	events, err := subscribe(unix.NETLINK_ROUTE, addressBuffer,
		unix.RTNLGRP_LINK, unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV6_IFADDR,
		unix.RTNLGRP_IPV4_ROUTE, unix.RTNLGRP_IPV6_ROUTE)
	if err != nil {
		return nil, err
	}
	w := newWatcher(delay, Read)
	w.events, w.log = events, log
	first, err := w.read()
	if err != nil {
		return nil, errors.Join(err, events.file.Close())
	}
	w.latest.Store(&first)
	return w, nil
}

func newWatcher(delay time.Duration, read func() (Addrs, error)) *Watcher {
	w := &Watcher{
		stirred: make(chan struct{}, 1),
		changed: make(chan struct{}, 1),
		delay:   delay,
		read:    read,
		log:     slog.New(slog.DiscardHandler),
	}
	w.latest.Store(&Addrs{})
	return w
}

// Latest is what was read last.
func (w *Watcher) Latest() Addrs { return *w.latest.Load() }

// C signals that Latest has changed. It has room for one signal.
func (w *Watcher) C() <-chan struct{} { return w.changed }

// Run follows the addresses until ctx ends (it returns nil then) or the
// subscription fails.
func (w *Watcher) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	defer w.events.interruptOn(ctx)()
	g.Go(w.listen)
	g.Go(func() error { w.follow(ctx); return nil })
	err := g.Wait()
	return errors.Join(err, w.events.file.Close())
}

// listen turns notifications into pokes; it is always ready for the next.
func (w *Watcher) listen() error {
	for {
		data, err := w.events.receive(true)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return nil
		case errors.Is(err, errOverflow):
			poke(w.stirred)
		case err != nil:
			return fmt.Errorf("follow this host's addresses: %w", err)
		case concernsAddrs(data):
			poke(w.stirred)
		}
	}
}

// follow reads after events. What happens while the delay runs is part of
// the reading; what happens during the reading stirs again.
func (w *Watcher) follow(ctx context.Context) {
	for pause(ctx, w.stirred, w.delay) {
		for !w.refresh() {
			if !pause(ctx, nil, readRetry) {
				return
			}
		}
	}
}

// pause waits for a signal (unless it is nil), then for the delay, and takes
// a signal that came meanwhile. It is false when ctx ended.
func pause(ctx context.Context, signal <-chan struct{}, delay time.Duration) bool {
	if signal != nil {
		select {
		case <-ctx.Done():
			return false
		case <-signal:
		}
	}
	select {
	case <-ctx.Done():
		return false
	case <-time.After(delay):
	}
	select {
	case <-signal:
	default:
	}
	return true
}

// refresh reads and tells of a change. After a failure the last good value
// stands.
func (w *Watcher) refresh() bool {
	next, err := w.read()
	if err != nil {
		if err.Error() != w.failure { // it's tried every second
			w.log.Warn("this host's addresses can't be read; going on with those read before", "error", err)
		}
		w.failure = err.Error()
		return false
	}
	w.failure = ""
	if !next.Equal(w.Latest()) {
		w.latest.Store(&next)
		poke(w.changed)
	}
	return true
}

// concernsAddrs reports whether a datagram holds an event that Addrs may
// depend on. Of routes that is only the default ones of the main table: a
// router's table changes all the time. The kernel doesn't announce IPv4 routes
// that go with their interface or source address, but the event of that
// interface or address comes.
func concernsAddrs(data []byte) bool {
	for len(data) > 0 {
		kind, payload, rest, ok := nextMessage(data)
		if !ok {
			return true
		}
		switch kind {
		case unix.RTM_NEWROUTE, unix.RTM_DELROUTE:
			if len(payload) < unix.SizeofRtMsg || payload[1] == 0 && payload[4] == unix.RT_TABLE_MAIN {
				return true
			}
		default:
			return true
		}
		data = rest
	}
	return false
}
