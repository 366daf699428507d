package gossip

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"
	"unicode"

	"pointsman/state"
)

// What drains may take.
const (
	maxDrains = 1024 // with the ended ones
	maxReason = 256  // bytes; longer ones are cut off

	// maxDrain is how long one may last, and maxKept what others accept, whose
	// clocks may be behind.
	maxDrain = 366 * 24 * time.Hour
	maxKept  = maxDrain + 24*time.Hour
)

// DefaultGrace is the grace of a drain that says nothing of it: those of the
// first agents end with the reason.
const DefaultGrace = 5 * time.Minute

// A drain is an entry of the one map that all members hold and any may write:
// for each target the one of the highest version is kept. It's immutable.
type drain struct {
	target  state.DrainTarget
	drained bool // false: it was ended, and others must learn that
	reason  string
	by      string
	since   int64 // Unix seconds of the fleet's time, as the others
	until   int64

	// keep is the latest until that any of the target's earlier entries had.
	// So long this one is kept: else one that ends sooner would be forgotten
	// before the one it replaced, and a host that was away would bring that back.
	keep int64

	// boot is the boot id of the host, if it drained itself to shut down. The
	// drain ends when that host runs with another.
	boot string

	grace int64 // seconds
	file  bool  // see state.Drain

	version uint64
	sum     uint64
	message []byte
}

func newDrain(d drain) *drain {
	m := appendStr8(begin(kindDrain), d.by)
	m = appendU64(m, d.version)
	m = append(m, boolByte(d.drained))
	for _, t := range []int64{d.since, d.until, d.keep} {
		m = appendU64(m, uint64(t))
	}
	m = appendTarget(m, d.target)
	m = appendStr8(m, d.boot)
	m = appendU64(appendBytes16(m, []byte(d.reason)), uint64(d.grace))
	d.message = append(m, flagFile*boolByte(d.file))
	d.sum = sum64(d.message)
	return &d
}

// flagFile is the one flag of a drain's last byte.
const flagFile = 1

func boolByte(b bool) byte {
	if b {
		return 1
	}
	return 0
}

const (
	targetNode = iota + 1
	targetEndpoint
	targetService
)

func appendTarget(m []byte, t state.DrainTarget) []byte {
	switch {
	case t.Node != "":
		return appendStr8(append(m, targetNode), t.Node)
	case t.Service != state.ObjectName{}:
		return appendStr8(appendStr8(append(m, targetService), t.Service.Namespace), t.Service.Name)
	}
	return appendStr8(append(m, targetEndpoint), t.Endpoint.String())
}

// readTarget reads a target, and sets bad unless it's one that is written so, and
// can be shown: unlike a reason it can't be mended, since it's by its target that
// a drain is ended.
func readTarget(r *wireReader) state.DrainTarget {
	var t state.DrainTarget
	switch r.u8() {
	case targetNode:
		t.Node = r.name()
	case targetService:
		t.Service = state.ObjectName{Namespace: r.name(), Name: r.name()}
	case targetEndpoint:
		s := r.str8()
		ap, err := netip.ParseAddrPort(s)
		t.Endpoint = ap
		r.bad = r.bad || err != nil || ap.String() != s
	default:
		r.bad = true
	}
	r.bad = r.bad || oneLine(t.String()) != t.String()
	return t
}

// decodeDrain reads a drain; it keeps the message.
func decodeDrain(message []byte) (*drain, bool) {
	k, r, ok := open(message)
	if !ok || k != kindDrain || len(message) > maxPacket {
		return nil, false
	}
	d := &drain{by: r.name(), version: r.u64(), drained: r.u8() != 0, message: message, sum: sum64(message)}
	d.since, d.until, d.keep = int64(r.u64()), int64(r.u64()), int64(r.u64())
	d.target = readTarget(r)
	d.boot = r.str8()
	d.reason = string(r.bytes16())
	d.grace = int64(DefaultGrace / time.Second)
	if len(r.rest) > 0 {
		d.grace, d.file = int64(r.u64()), r.u8()&flagFile != 0
	}
	return d, !r.bad && len(d.reason) <= maxReason && d.until <= d.keep && 0 <= d.since && d.since <= d.keep && graceful(d.grace)
}

func graceful(seconds int64) bool { return 0 <= seconds && seconds <= int64(maxKept/time.Second) }

// newer is a total order: last writer wins, of two that wrote at once the one
// whose name is the greater.
func (d *drain) newer(o *drain) bool {
	return cmp.Or(cmp.Compare(d.version, o.version), cmp.Compare(d.by, o.by), cmp.Compare(d.sum, o.sum)) > 0
}

// active tells whether the target gets no new connections.
func (d *drain) active(now time.Time) bool { return d.drained && now.Unix() < d.until }

func (d *drain) kept(now time.Time) bool { return now.Unix() < d.keep }

func (d *drain) state(skew time.Duration) *state.Drain {
	return &state.Drain{Target: d.target, Reason: oneLine(d.reason), By: oneLine(d.by), Since: time.Unix(d.since, 0).Add(-skew), Until: time.Unix(d.until, 0).Add(-skew),
		Grace: time.Duration(d.grace) * time.Second, File: d.file}
}

// oneLine makes a text fit for a table on a terminal, which what a peer sent may
// not be: it may hold line feeds and escape sequences, or end within a letter.
func oneLine(text string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, text)
}

// drainMap is the one map of drains, with the ended ones.
type drainMap map[state.DrainTarget]*drain

// merge adds a drain, and tells whether it was news.
func (m drainMap) merge(d *drain, now time.Time) bool {
	old := m[d.target]
	known := uint64(0)
	if old != nil {
		known = old.version
	}
	switch {
	case !d.kept(now) || d.keep > now.Add(maxKept).Unix():
		return false
	case old == nil && len(m) >= maxDrains:
		return false
	case d.version > known+maxLeap || old != nil && !d.newer(old):
		return false
	}
	m[d.target] = d
	return true
}

// expire forgets what isn't kept any more, and tells whether there was any.
func (m drainMap) expire(now time.Time) bool {
	before := len(m)
	for t, d := range m {
		if !d.kept(now) {
			delete(m, t)
		}
	}
	return len(m) != before
}

// next gives the time when the map next changes by itself, zero if never.
func (m drainMap) next(now time.Time) time.Time {
	var next int64
	for _, d := range m {
		for _, t := range []int64{d.until, d.keep} {
			if t > now.Unix() && (next == 0 || t < next) {
				next = t
			}
		}
	}
	if next == 0 {
		return time.Time{}
	}
	return time.Unix(next, 0)
}

func (m drainMap) sum() uint64 {
	var sum uint64
	for _, d := range m {
		sum ^= d.sum
	}
	return sum
}

// active gives the drains that hold now, with times of a clock that the drains'
// is ahead of by skew.
func (m drainMap) active(now time.Time, skew time.Duration) map[state.DrainTarget]*state.Drain {
	all := map[state.DrainTarget]*state.Drain{}
	for t, d := range m {
		if d.active(now) {
			all[t] = d.state(skew)
		}
	}
	return all
}

// write gives the entry that replaces the target's, said by a node. It's one that
// others take, though the one before may be of a time when the clock was ahead.
func (m drainMap) write(d drain, by string, now time.Time) *drain {
	d.by, d.keep, d.version = by, max(d.keep, d.until), 1
	if old := m[d.target]; old != nil {
		d.version = old.version + 1
		d.keep = max(d.keep, old.keep)
	}
	d.keep = min(d.keep, now.Add(maxKept).Unix())
	d.since, d.until = min(d.since, now.Unix()), min(d.until, d.keep)
	return newDrain(d)
}

// undrain gives the entry that ends the target's drain, nil if there is none.
func (m drainMap) undrain(t state.DrainTarget, by string, now time.Time) *drain {
	old := m[t]
	if old == nil || !old.active(now) {
		return nil
	}
	return m.write(drain{target: t, since: now.Unix(), until: old.until}, by, now)
}

// ofEarlierBoot gives the drain that this host set for its shutdown, if that is
// over: it runs with another boot id now.
func (m drainMap) ofEarlierBoot(node, boot string, now time.Time) (state.DrainTarget, bool) {
	t := state.DrainTarget{Node: node}
	d := m[t]
	return t, d != nil && d.active(now) && d.boot != "" && boot != "" && d.boot != boot
}

// outlastsBoot reports whether a target's drain is none of a shutdown.
func (m drainMap) outlastsBoot(t state.DrainTarget, now time.Time) bool {
	d := m[t]
	return d != nil && d.active(now) && d.boot == ""
}

// checkDrain says what's wrong with a drain that is asked for.
func checkDrain(d state.Drain, now time.Time) error {
	set := 0
	for _, is := range []bool{d.Target.Node != "", d.Target.Endpoint.Addr().IsValid(), d.Target.Service != state.ObjectName{}} {
		if is {
			set++
		}
	}
	switch {
	case set != 1:
		return errors.New("drain: exactly one of a node, an endpoint and a service is drained")
	case !readable(d.Target):
		return fmt.Errorf("drain %v: the name isn't one", d.Target)
	case !d.Until.After(now):
		return fmt.Errorf("drain %v: it would end at once (until %v)", d.Target, d.Until.Format(time.RFC3339))
	case d.Until.Sub(now) > maxDrain:
		return fmt.Errorf("drain %v: it would last longer than a year (until %v)", d.Target, d.Until.Format(time.RFC3339))
	case !graceful(int64(d.Grace / time.Second)):
		return fmt.Errorf("drain %v: %v is no time for its connections", d.Target, d.Grace)
	}
	return nil
}

// readable tells whether others would read the target as it is written.
func readable(t state.DrainTarget) bool {
	r := &wireReader{rest: appendTarget(nil, t)}
	return readTarget(r) == t && !r.bad
}
