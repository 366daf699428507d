package reconcile

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"pointsman/reconcile/nft"
)

// sync makes the kernel equal to what is desired, one family after the other.
// A family that fails doesn't hold back the other. Health checks hear of what gets
// worse before the kernel does, and of what gets better after it: a balancer
// that is told too early sends clients to nobody.
func (l *Loop) sync(ctx context.Context, desired *Desired) error {
	in := l.input(desired)
	before := l.latest.Swap(in)
	if l.NodePortsMoved != nil && (before == nil || !slices.Equal(before.NodePortAddresses, in.NodePortAddresses)) {
		l.NodePortsMoved()
	}
	checks := healthChecks(in.Services, in.Node.Name)
	l.HealthChecks.Worsen(checks)
	var first error
	for _, t := range l.tables {
		if err := l.syncTable(ctx, t, in); err != nil && first == nil {
			first = err
		}
	}
	if first == nil {
		l.HealthChecks.Set(checks, in.NodePortAddresses)
	}
	return first
}

func (l *Loop) syncTable(ctx context.Context, t *table, in *Input) error {
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	l.alive.expect(l.timeout + readBackTime)
	l.Health.Waits(Nftables, time.Now())
	defer l.Health.Waits(Nftables, time.Time{})
	began, full := time.Now(), !t.kernel.Known()
	stats, err := l.program(ctx, t, in)
	if err != nil && ctx.Err() == context.DeadlineExceeded { // else it's "signal: killed", and by whom?
		err = fmt.Errorf("%w: it hadn't ended after %v", err, l.timeout)
	}
	took := time.Since(began)
	l.Metrics.synced(t.kernel.Family(), outcome{full, stats, took, err})
	l.sent = l.sent || stats.Transactions > 0
	if err != nil { // at once: the other family may take as long
		l.Health.Failed("nftables: " + oneLine(err))
	}
	if err != nil || stats.Transactions == 0 {
		return err
	}
	l.Log.Info("programmed", "family", t.kernel.Family(), "elements", stats.Elements, "transactions", stats.Transactions,
		"rewritten", stats.Rewritten, "repair", l.drifted, "took", took.Round(100*time.Microsecond))
	return nil
}

// program makes a family's table what the input means.
func (l *Loop) program(ctx context.Context, t *table, in *Input) (nft.Stats, error) {
	known := t.kernel.Known()
	if err := t.kernel.Load(ctx); err != nil {
		return nft.Stats{}, err
	}
	if replaced := t.kernel.Replaced(); !known && replaced != nil && !l.drifted { // else it's told already
		l.foundDrift(t.kernel.Family(), replaced)
	}
	want := t.planner.Next(in, t.kernel)
	ended := l.Conntrack.Syncing(in, want.Family, t.kernel.Going(want))
	stats, err := t.kernel.Sync(ctx, want)
	ended(err)
	for _, s := range t.kernel.Spans() {
		l.ledger.Wrote(s.Before, s.After)
	}
	l.tellRules(t.kernel.Family(), t.kernel.Prints())
	return stats, err
}

// tellRules has what the chains have remembered, if it's something new.
func (l *Loop) tellRules(f nft.Family, p nft.Prints) {
	if l.RulesWritten == nil || l.Rules[f].Same(p) {
		return
	}
	next := maps.Clone(l.Rules)
	if next == nil {
		next = Rules{}
	}
	next[f] = p
	l.Rules = next
	l.RulesWritten(next)
}
