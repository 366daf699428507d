package nft

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"
	"sigs.k8s.io/knftables"
)

func itoa(n int) string { return strconv.Itoa(n) }

// reader reads a table back.
type reader interface {
	// read gives what the kernel holds, an absent table included.
	read(f Family, schema *Schema) (*held, error)

	// clients lists the elements of a client set.
	clients(f Family, set *Set) ([]Element, error)

	// prints reads what the chains have.
	prints(f Family, schema *Schema) (Prints, error)
}

// Span is the ruleset's generation id before and after a transaction of ours.
// If it grew by exactly one, nobody else wrote in between.
type Span struct{ Before, After uint32 }

// Stats is what a Sync did.
type Stats struct {
	Transactions int
	Elements     int  // added, changed or removed
	Rewritten    bool // the program was written anew
	Created      bool // there was no table

	rules bool // chains were written
}

// Kernel is one family's table in the kernel, as far as it's known. It is not
// safe for concurrent use: only the reconcile loop writes.
type Kernel struct {
	family     Family
	schema     *Schema
	nft        knftables.Interface
	reader     reader
	generation func() (uint32, error)
	max        int // elements of one transaction
	watcher    func(done, total int)

	held   *held // nil: not known, to be read back
	untidy bool  // it may hold what was made on demand in another life
	doubt  bool  // somebody may have changed chains or rules
	failed int   // Syncs that failed since the last one that didn't
	spans  []Span

	prints   atomic.Pointer[Prints]
	replaced []string
}

// Open gives the family's table. It fails, with a text for the operator, if
// nft is absent, too old, or not permitted. It changes nothing.
func Open(f Family, schema *Schema, generation func() (uint32, error)) (*Kernel, error) {
	nft, err := openPrivileged(f)
	if err != nil {
		return nil, err
	}
	return &Kernel{family: f, schema: schema, nft: nft, reader: netlinkReader{}, generation: generation, max: maxElements}, nil
}

// Watch has a function told how many elements of a change were sent, of how many,
// before each of its transactions. At the end, be it an error, all were.
func (k *Kernel) Watch(tell func(done, total int)) { k.watcher = tell }

func (k *Kernel) tell(done, total int) {
	if k.watcher != nil {
		k.watcher(done, total)
	}
}

// Family is the table's family.
func (k *Kernel) Family() Family { return k.family }

// Forget makes the next Load read back what the kernel holds. With program
// the chains are written anew as well, since their rules can't be compared.
func (k *Kernel) Forget(program bool) {
	k.held = nil
	k.doubt = k.doubt || program
}

// Known reports whether it's known what the kernel holds, so that Load reads
// nothing.
func (k *Kernel) Known() bool { return k.held != nil }

// Load makes sure that it's known what the kernel holds.
func (k *Kernel) Load(ctx context.Context) error {
	if k.held != nil {
		return nil
	}
	for attempt := 1; ; attempt++ {
		h, calm, err := k.readBack()
		switch {
		case err == nil && (calm || attempt == attempts):
			k.held, k.untidy = h, true
			k.suspect(h)
			return nil
		case err != nil && !errors.Is(err, unix.ENOENT), attempt == attempts, ctx.Err() != nil:
			return fmt.Errorf("read back table %s %s: %w", k.family, TableName, cmp.Or(err, ctx.Err()))
		}
	}
}

// attempts bounds the readings that others' transactions disturb: ENOENT is
// an object that went after it was listed, and the kernel's lists may skip an
// entry when one before it goes. A host may have a writer that never rests, so
// the last reading is taken as it is: had anybody changed our own table, the
// notification of that would make us read it again.
const attempts = 5

// readBack reads the table, and tells whether nobody wrote meanwhile.
func (k *Kernel) readBack() (h *held, calm bool, err error) {
	before, err := k.generation()
	if err != nil {
		return nil, false, fmt.Errorf("generation id: %w", err)
	}
	if h, err = k.reader.read(k.family, k.schema); err != nil {
		return nil, false, err
	}
	after, err := k.generation()
	if err != nil {
		return nil, false, fmt.Errorf("generation id: %w", err)
	}
	return h, before == after, nil
}

// Group gives the elements that the kernel holds of a group, or nil. It's
// valid after Load.
func (k *Kernel) Group(id string) *Group {
	if k.held == nil {
		return nil
	}
	return k.held.groups[id]
}

// Groups gives all elements that the kernel holds, valid after Load. The map
// must not be changed.
func (k *Kernel) Groups() map[string]*Group { return k.held.groups }

// Version is that of the Table that the kernel holds, nil where it isn't
// known that it holds just one.
func (k *Kernel) Version() *Version {
	if k.held == nil {
		return nil
	}
	return k.held.version
}

// Going names the groups that the kernel holds and that are not wanted, valid
// after Load.
func (k *Kernel) Going(want *Table) []string { return k.held.going(want) }

// Sync makes the kernel's table equal to want. On an error it's no longer
// known what the kernel holds, and nothing is remembered: the next Sync reads
// it back and sends what is missing.
func (k *Kernel) Sync(ctx context.Context, want *Table) (Stats, error) {
	stats, err := k.sync(ctx, want)
	if stats.rules { // or perhaps not, after an error
		k.learn()
		stats.rules = false
	}
	if err != nil {
		k.failed++
		k.Forget(false)
		return stats, fmt.Errorf("table %s %s: %w", k.family, TableName, err)
	}
	k.failed, k.doubt = 0, false
	return stats, nil
}

// lastResort is the number of failures in a row after which the table is
// replaced as a whole, which works whatever somebody has put into it, but
// makes clients with affinity lose their endpoint. The attempts between are
// ordinary ones: if memory is short, the whole is the last thing to succeed.
const lastResort = 3

func (k *Kernel) sync(ctx context.Context, want *Table) (Stats, error) {
	if err := k.Load(ctx); err != nil {
		return Stats{}, err
	}
	if k.held.exists && k.failed > 0 && k.failed%lastResort == 0 {
		return k.replace(ctx, want)
	}
	var stats Stats
	if err := k.apply(ctx, diff(k.held, want, k.doubt), want, &stats); err != nil || !k.untidy {
		return stats, err
	}
	err := k.apply(ctx, tidy(k.held, want), want, &stats)
	k.untidy = err != nil
	return stats, err
}

// apply sends a change: one transaction, and more only if it's larger than
// max.
func (k *Kernel) apply(ctx context.Context, c *change, want *Table, stats *Stats) error {
	if c.empty() {
		k.held = k.held.after(c, want)
		return nil
	}
	stats.Rewritten, stats.Created = stats.Rewritten || c.rewrite, stats.Created || c.create
	stats.rules = stats.rules || c.rewrite || len(c.fill) > 0
	w := newWriter(k.nft.NewTransaction(), want)
	if !c.tidy {
		if err := k.purge(w, want); err != nil {
			return err
		}
	}
	parts, before := c.parts(k.max), stats.Elements
	total := elements(parts)
	defer k.tell(total, total)
	for _, p := range parts {
		k.tell(stats.Elements-before, total)
		w.part(c, p)
		if err := k.run(ctx, w.tx, stats); err != nil {
			return err
		}
		stats.Elements += p.size
		w.tx = k.nft.NewTransaction()
	}
	if c.wake { // the kernel refuses this together with new base chains
		w.table()
		if err := k.run(ctx, w.tx, stats); err != nil {
			return err
		}
	}
	k.held = k.held.after(c, want)
	return nil
}

// replace writes the whole table anew in one transaction.
func (k *Kernel) replace(ctx context.Context, want *Table) (Stats, error) {
	nothing := &held{}
	c := diff(nothing, want, false)
	stats := Stats{Rewritten: true, Elements: want.Elements(), rules: true}
	w := newWriter(k.nft.NewTransaction(), want)
	w.table()
	w.tx.Delete(&knftables.Table{})
	w.whole(c)
	if err := k.run(ctx, w.tx, &stats); err != nil {
		return stats, err
	}
	k.held = nothing.after(c, want)
	return stats, nil
}

// run sends one transaction and notes which generations of the ruleset it
// spans.
func (k *Kernel) run(ctx context.Context, tx *knftables.Transaction, stats *Stats) error {
	before, err := k.generation()
	if err != nil {
		return fmt.Errorf("generation id: %w", err)
	}
	if err := k.nft.Run(ctx, tx); err != nil {
		return err
	}
	stats.Transactions++
	after, err := k.generation()
	if err != nil {
		return fmt.Errorf("generation id: %w", err)
	}
	k.spans = append(k.spans, Span{before, after})
	return nil
}

// Spans gives the spans of the transactions since the last call.
func (k *Kernel) Spans() []Span {
	spans := k.spans
	k.spans = nil
	return spans
}

// purge makes client sets forget the clients of slots that are given anew.
func (k *Kernel) purge(w *writer, want *Table) error {
	suffixes := map[string]map[string]bool{}
	for _, p := range want.Purges {
		if !k.held.sets[p.Set].asDefined {
			continue
		}
		if suffixes[p.Set] == nil {
			suffixes[p.Set] = map[string]bool{}
		}
		suffixes[p.Set][p.Suffix] = true
	}
	for i := range want.Sets {
		s := &want.Sets[i]
		if suffixes[s.Name] == nil {
			continue
		}
		clients, err := k.reader.clients(k.family, s)
		if err != nil {
			return fmt.Errorf("list set %s: %w", s.Name, err)
		}
		for _, e := range clients {
			if _, frontend, _ := strings.Cut(e.Key, " . "); suffixes[s.Name][frontend] {
				w.purge([]Element{e})
			}
		}
	}
	return nil
}

// Cleanup removes the table. Removing an absent table is no error.
func (k *Kernel) Cleanup(ctx context.Context) error {
	tx := k.nft.NewTransaction()
	tx.Add(&knftables.Table{})
	tx.Delete(&knftables.Table{})
	k.Forget(false)
	return k.nft.Run(ctx, tx)
}

// Check asks nft and the kernel whether they would take a table, changing
// nothing. An error tells what is missing.
func (k *Kernel) Check(ctx context.Context, t *Table) error {
	tx := k.nft.NewTransaction()
	w := newWriter(tx, t)
	w.table()
	tx.Delete(&knftables.Table{})
	w.whole(diff(&held{}, t, false))
	return k.nft.Check(ctx, tx)
}

// after gives what is held once a change to want has succeeded.
func (h *held) after(c *change, want *Table) *held {
	next := &held{exists: true, program: want.Program, groups: want.Groups, version: want.Version,
		sets: map[string]heldSet{}, chains: map[string]heldChain{}}
	for name, s := range h.sets {
		if want.Schema.onDemand(name) && s.asDefined {
			next.sets[name] = s
		}
	}
	for name, chain := range h.chains {
		if c.rewrite {
			chain.rules = 0
		}
		chain.idle = true
		next.chains[name] = chain
	}
	if !c.empty() {
		for _, name := range slices.Concat(c.moved, c.dropChains) {
			delete(next.chains, name)
		}
		for _, s := range c.dropSets {
			delete(next.sets, s.Name)
		}
	}
	for _, s := range want.Sets {
		next.sets[s.Name] = heldSet{isMap: s.IsMap(), asDefined: true}
	}
	for _, chain := range want.Chains {
		next.chains[chain.Name] = heldChain{hook: chain.Hook, accept: true, rules: len(chain.Rules)}
	}
	return next
}
