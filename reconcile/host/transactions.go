package host

import (
	"encoding/binary"
	"fmt"
	"maps"
	"strings"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Table names an nf_tables table.
type Table struct {
	Family Family
	Name   string
}

func (t Table) String() string { return t.Family.String() + " " + t.Name }

// Family is the family of an nf_tables table.
type Family uint8

// The families that pointsman has tables in.
const (
	IPv4 Family = unix.NFPROTO_IPV4
	IPv6 Family = unix.NFPROTO_IPV6
)

func (f Family) String() string {
	switch f {
	case IPv4:
		return "ip"
	case IPv6:
		return "ip6"
	}
	return fmt.Sprintf("family %d", uint8(f))
}

// Touched says what kinds of things of a table a transaction wrote.
type Touched uint8

const (
	// Elements of sets and maps. What the packet path adds (affinity), and
	// what times out, makes no transaction and is never seen here.
	Elements Touched = 1 << iota
	// Program is everything else: chains, rules, sets, maps, objects,
	// flowtables, the table's own flags (dormant), and what we don't know.
	Program
	// Created and Deleted tables come with Program.
	Created
	// Deleted is the table's end.
	Deleted
)

// worst reduces to the graver kind alone: Program, Elements or nothing.
func (t Touched) worst() Touched {
	if t&^Elements != 0 {
		return Program
	}
	return t
}

func (t Touched) String() string {
	var parts []string
	for i, name := range []string{"elements", "program", "created", "deleted"} {
		if t&(1<<i) != 0 {
			parts = append(parts, name)
		}
	}
	if parts == nil {
		return "nothing"
	}
	return strings.Join(parts, "+")
}

// Change is a committed transaction that touched our tables, several run
// together, or a gap in what is known.
type Change struct {
	// First and Last are generations (see Generation). They are equal
	// unless this is a gap or several transactions; transactions that didn't
	// touch our tables may lie between them.
	First, Last uint32
	// Count is how many transactions these are; of a gap it is unknown, and 0.
	Count int
	// Tables has an entry for each of our tables that was touched. A gap may
	// have touched anything, and has none.
	Tables map[Table]Touched
	// Process and PID are the writer's (NFTA_GEN_PROC_NAME, Linux 4.14): the
	// thread's name, and its id in the first PID namespace; the latest
	// writer's where this is several transactions. A gap has none.
	Process string
	PID     uint32
	// Lost marks a gap: notifications of the generations First to Last were
	// dropped, some or all.
	Lost bool
}

func (c Change) String() string {
	if c.Lost {
		return fmt.Sprintf("notifications lost in generations %d to %d", c.First, c.Last)
	}
	generations := fmt.Sprintf("generation %d", c.Last)
	if c.Count > 1 {
		generations = fmt.Sprintf("%d transactions up to generation %d", c.Count, c.Last)
	}
	return fmt.Sprintf("changed by %s (pid %d), %s", c.Process, c.PID, generations)
}

// merge runs two changes together, in order. A gap swallows all; it may begin
// before changes that were recorded while it was open.
func (c Change) merge(next Change) Change {
	if c.Lost || next.Lost {
		gap := Change{First: c.First, Last: next.Last, Lost: true}
		if later(c.First, next.First) {
			gap.First = next.First
		}
		if later(c.Last, next.Last) {
			gap.Last = c.Last
		}
		return gap
	}
	next.First = c.First
	next.Count += c.Count
	tables := maps.Clone(c.Tables)
	for t, touched := range next.Tables {
		tables[t] |= touched
	}
	next.Tables = tables
	return next
}

// Generation is the ruleset's generation id (GETGEN, Linux 3.18) in this
// network namespace. Each committed transaction, of whatever tables, adds
// exactly one; one that turns out to change nothing (`add table` of a table
// that is there) adds none, and neither does one that fails. It is never 0:
// behind 2^32-1 comes 1.
//
// A generation is visible a moment before its notifications are queued, but
// once a writer has its answer both are.
func Generation() (uint32, error) {
	req := nl.NewNetlinkRequest(unix.NFNL_SUBSYS_NFTABLES<<8|unix.NFT_MSG_GETGEN, 0)
	req.AddData(&nl.Nfgenmsg{NfgenFamily: unix.AF_UNSPEC, Version: nl.NFNETLINK_V0})
	messages, err := req.Execute(unix.NETLINK_NETFILTER, 0)
	if err != nil {
		return 0, fmt.Errorf("read the generation of nf_tables: %w", err)
	}
	for _, m := range messages {
		if len(m) < netfilterHeader {
			continue
		}
		if g, ok := parseGeneration(m[netfilterHeader:]); ok {
			return g.id, nil
		}
	}
	return 0, fmt.Errorf("read the generation of nf_tables: no answer that makes sense")
}

// generation is what NEWGEN says.
type generation struct {
	id, pid uint32
	process string
}

// parseGeneration reads NEWGEN's attributes. The writer's are optional.
func parseGeneration(attributes []byte) (g generation, ok bool) {
	id, ok := attribute(attributes, unix.NFTA_GEN_ID)
	if !ok || len(id) != 4 {
		return g, false
	}
	g.id = binary.BigEndian.Uint32(id)
	if pid, ok := attribute(attributes, unix.NFTA_GEN_PROC_PID); ok && len(pid) == 4 {
		g.pid = binary.BigEndian.Uint32(pid)
	}
	if name, ok := attribute(attributes, unix.NFTA_GEN_PROC_NAME); ok {
		g.process = unix.ByteSliceToString(name)
	}
	return g, true
}

// nextGeneration and later know that generations wrap around.
func nextGeneration(g uint32) uint32 { return max(g+1, 1) }

func later(a, b uint32) bool { return int32(a-b) > 0 }
