package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

const (
	// journalBuffer is asked of the kernel for the socket; it grants twice
	// that, counted with its own overhead. A load of 10,000 services with 10
	// endpoints each sends 11 MB.
	journalBuffer = 32 << 20

	// journalLength is how many changes wait for Take one by one; more are
	// run together with the last. A first load in chunks makes about a
	// hundred.
	journalLength = 1024
)

// Journal records the nf_tables transactions that touch some tables, whoever
// makes them; Judge tells our own from others'.
type Journal struct {
	events  *socket
	tracker *tracker // Run's
	signal  chan struct{}

	mu      sync.Mutex
	changes []Change
	seen    uint32
}

// NewJournal subscribes (CAP_NET_ADMIN): every transaction that commits after
// it returns will be recorded. Run must be called, or the socket leaks.
func NewJournal(tables ...Table) (*Journal, error) {
	return newJournal(journalBuffer, tables...)
}

func newJournal(bufferBytes int, tables ...Table) (*Journal, error) {
	events, err := subscribe(unix.NETLINK_NETFILTER, bufferBytes, unix.NFNLGRP_NFTABLES)
	if err != nil {
		return nil, fmt.Errorf("follow nf_tables: %w", err)
	}
	now, err := Generation()
	if err != nil {
		return nil, errors.Join(err, events.file.Close())
	}
	return &Journal{
		events:  events,
		tracker: newTracker(now, tables),
		signal:  make(chan struct{}, 1),
		seen:    now,
	}, nil
}

// C signals that transactions have been recorded: time to Take. Those of
// others' tables signal too, for a write of ours that they fell into can be
// judged only when the last of them has been seen. It has room for one signal.
func (j *Journal) C() <-chan struct{} { return j.signal }

// Take hands over the changes recorded since it was called last, in order,
// and the generation up to which they are complete. Judging a change needs
// that too: see Ledger.
func (j *Journal) Take() (changes []Change, seen uint32) {
	j.mu.Lock()
	defer j.mu.Unlock()
	changes, j.changes = j.changes, nil
	return changes, j.seen
}

// Run records until ctx ends (it returns nil then) or the subscription fails.
// Notifications that were lost are recorded as a Change that says so.
func (j *Journal) Run(ctx context.Context) error {
	stop := j.events.interruptOn(ctx)
	defer stop()
	err := j.record()
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = nil
	}
	return errors.Join(err, j.events.file.Close())
}

func (j *Journal) record() error {
	for {
		var changes []Change
		data, err := j.events.receive(!j.tracker.gap)
		switch {
		case err == nil:
			changes = j.tracker.feed(data)
		case errors.Is(err, errOverflow):
			j.tracker.lose()
		case errors.Is(err, errEmpty):
			now, err := Generation()
			if err != nil {
				return err
			}
			changes = j.tracker.recover(now)
		default:
			return fmt.Errorf("follow nf_tables: %w", err)
		}
		j.publish(changes, j.tracker.told())
	}
}

func (j *Journal) publish(changes []Change, seen uint32) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if seen != j.seen || len(changes) > 0 {
		poke(j.signal)
	}
	j.seen = seen
	for _, c := range changes {
		if n := len(j.changes); n >= journalLength {
			j.changes[n-1] = j.changes[n-1].merge(c)
		} else {
			j.changes = append(j.changes, c)
		}
	}
}
