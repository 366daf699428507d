package gossip

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"time"
)

// TroubleKind says what sort of thing is wrong.
type TroubleKind string

// The kinds of troubles.
const (
	CannotListen  TroubleKind = "cannot listen"            // nothing is heard of the others
	CannotDecrypt TroubleKind = "cannot decrypt"           // what comes from a host; it has another key
	OtherFleet    TroubleKind = "another fleet"            // a host of another fleet, or no member at all, sends to this one
	NameConflict  TroubleKind = "name conflict"            // two hosts use one name
	UDPBlocked    TroubleKind = "udp blocked"              // a host answers over TCP only
	LargeBlocked  TroubleKind = "large udp blocked"        // a host that large packets don't reach
	NoAnswer      TroubleKind = "no answer"                // a host that others have alive; see Count for how many pings
	NotAdmitted   TroubleKind = "not admitted"             // a host that no Node manifest has, or has elsewhere
	CannotJoin    TroubleKind = "cannot join"              // a host that should be a member
	ClockOff      TroubleKind = "clock"                    // a host, maybe this one, whose time of day is another than the fleet's
	BadKeyring    TroubleKind = "keyring"                  // the file can't be used; the keys of before are
	BadState      TroubleKind = "state dir"                // it can't be read or written
	Overflow      TroubleKind = "more than can be handled" // messages are dropped
)

// Trouble is something wrong that somebody should know of.
type Trouble struct {
	Kind    TroubleKind
	Member  string     // the name of the other host, if it has one
	Address netip.Addr // of the other host; zero if it isn't known
	Detail  string
	Since   time.Time
	Last    time.Time // when it was last seen
	Count   int       // how often
}

// What others cause is bounded in number and fades when it isn't seen again. Of
// it others choose the words, and it's for terminals: it's made one short line.
const (
	maxTroubles    = 256
	troubleFades   = time.Minute
	maxDetailBytes = 512
)

type troubleKey struct {
	kind    TroubleKind
	subject string
}

// troubles are those of now. They aren't safe for concurrent use.
type troubles map[troubleKey]*Trouble

// note adds a trouble with another host, or counts it once more; it tells
// whether it's a new one.
func (all troubles) note(t Trouble, now time.Time) bool {
	t.Member = oneLine(t.Member[:min(len(t.Member), maxName)])
	t.Detail = oneLine(t.Detail[:min(len(t.Detail), maxDetailBytes)])
	key := troubleKey{t.Kind, cmp.Or(t.Member, t.Address.String())}
	old := all[key]
	if old == nil && len(all) >= maxTroubles {
		return false
	}
	t.Since, t.Last, t.Count = now, now, 1
	if old != nil {
		t.Since, t.Count = old.Since, old.Count+1
	}
	all[key] = &t
	return old == nil
}

// over forgets a trouble with another host, by its name or address.
func (all troubles) over(k TroubleKind, subjects ...string) {
	for _, s := range subjects {
		delete(all, troubleKey{k, s})
	}
}

// set says that something of this host itself is wrong, or that it isn't if err
// is nil; it tells whether that's new.
func (all troubles) set(k TroubleKind, err error, now time.Time) bool {
	key := troubleKey{kind: k}
	old := all[key]
	if err == nil {
		delete(all, key)
		return old != nil
	}
	t := &Trouble{Kind: k, Detail: oneLine(err.Error()), Since: now, Last: now, Count: 1}
	if old != nil {
		t.Since, t.Count = old.Since, old.Count+1
	}
	all[key] = t
	return old == nil || old.Detail != t.Detail
}

// fade forgets the troubles with others that weren't seen for a while, and
// tells whether there were any.
func (all troubles) fade(now time.Time) bool {
	before := len(all)
	maps.DeleteFunc(all, func(k troubleKey, t *Trouble) bool { return k.subject != "" && now.Sub(t.Last) > troubleFades })
	return len(all) != before
}

// list gives the troubles and some more by kind and member.
func (all troubles) list(list []Trouble) []Trouble {
	for _, t := range all {
		list = append(list, *t)
	}
	slices.SortFunc(list, func(a, b Trouble) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Member, b.Member), a.Address.Compare(b.Address))
	})
	return list
}
