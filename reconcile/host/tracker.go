package host

import (
	"bytes"

	"golang.org/x/sys/unix"
)

// Messages that linux/netfilter/nf_tables.h has and x/sys/unix 0.48 has not:
// the kernel reports `nft destroy` (Linux 6.3) with the DEL messages for some
// objects, with these for others.
const (
	msgDestroyTable   = 0x1a
	msgDestroySetElem = 0x1e
)

// objectTable is the attribute that names the table, in the messages of every
// kind of object (NFTA_TABLE_NAME, NFTA_CHAIN_TABLE, NFTA_RULE_TABLE, ...).
const objectTable = 1

// tracker makes changes out of notifications. The kernel sends a transaction's
// objects, one message each, then NEWGEN with the generation that they made,
// all while it holds the lock of the commit: transactions don't mix.
//
// Of an object's message only the type, the family and the table's name are
// looked at. Our own load of 100,000 elements sends 11 MB of them.
type tracker struct {
	tables []Table
	open   []Touched // by the transaction whose NEWGEN hasn't come, by table
	seen   uint32    // the last generation that was announced
	gap    bool      // something is missing behind generation from
	from   uint32
}

func newTracker(seen uint32, tables []Table) *tracker {
	return &tracker{tables: tables, open: make([]Touched, len(tables)), seen: seen}
}

// feed takes a datagram and returns the changes that it completes.
func (t *tracker) feed(data []byte) []Change {
	var out []Change
	for len(data) > 0 {
		kind, payload, rest, ok := nextMessage(data)
		if !ok {
			t.lose()
			return out
		}
		if kind>>8 == unix.NFNL_SUBSYS_NFTABLES {
			out = t.message(uint8(kind), payload, out)
		}
		data = rest
	}
	return out
}

func (t *tracker) message(kind uint8, payload []byte, out []Change) []Change {
	if len(payload) < netfilterHeader {
		t.lose()
		return out
	}
	family, attributes := Family(payload[0]), payload[netfilterHeader:]
	if kind != unix.NFT_MSG_NEWGEN {
		t.object(kind, family, attributes)
		return out
	}
	g, ok := parseGeneration(attributes)
	if !ok {
		t.lose()
		return out
	}
	return t.commit(g, out)
}

// object notes which of our tables a message is about.
func (t *tracker) object(kind uint8, family Family, attributes []byte) {
	name, ok := attribute(attributes, objectTable)
	if !ok {
		t.lose()
		return
	}
	name = bytes.TrimSuffix(name, []byte{0})
	for i, table := range t.tables {
		if table.Family == family && string(name) == table.Name {
			t.open[i] |= touchedBy(kind)
		}
	}
}

func touchedBy(kind uint8) Touched {
	switch kind {
	case unix.NFT_MSG_NEWSETELEM, unix.NFT_MSG_DELSETELEM, msgDestroySetElem:
		return Elements
	case unix.NFT_MSG_NEWTABLE: // also a change of flags; the message doesn't tell
		return Program | Created
	case unix.NFT_MSG_DELTABLE, msgDestroyTable:
		return Program | Deleted
	}
	return Program
}

// commit ends a transaction. Generations without a NEWGEN between the last
// and this one are a gap that the socket has not told of.
func (t *tracker) commit(g generation, out []Change) []Change {
	c := Change{First: g.id, Last: g.id, Count: 1, Process: g.process, PID: g.pid}
	for i, touched := range t.open {
		if touched == 0 {
			continue
		}
		if c.Tables == nil {
			c.Tables = make(map[Table]Touched, len(t.tables))
		}
		c.Tables[t.tables[i]] = touched
	}
	clear(t.open)
	missed := nextGeneration(t.seen)
	if later(g.id, missed) && !t.gap {
		out = append(out, Change{First: missed, Last: g.id, Lost: true})
	}
	if later(g.id, t.seen) {
		t.seen = g.id
	}
	if c.Tables == nil {
		return out
	}
	return append(out, c)
}

// lose opens a gap: from here on, until the socket has been read empty, any
// message may be missing. An overflow is reported ahead of what was queued
// before it, and the kernel drops everything until the queue is empty
// (NETLINK_S_CONGESTED).
func (t *tracker) lose() {
	if !t.gap {
		t.gap, t.from = true, t.seen
	}
}

// recover closes the gap, once the socket has been read empty, given the
// generation as it is now. Transactions up to that one may have lost messages,
// and may still send some; the messages of later ones are all to come, for the
// kernel raises the generation before it sends the first.
func (t *tracker) recover(now uint32) []Change {
	t.gap = false
	clear(t.open)
	if later(now, t.seen) {
		t.seen = now
	}
	if !later(t.seen, t.from) {
		return nil
	}
	return []Change{{First: nextGeneration(t.from), Last: t.seen, Lost: true}}
}

// told is the generation up to which all changes have been returned.
func (t *tracker) told() uint32 {
	if t.gap {
		return t.from
	}
	return t.seen
}
