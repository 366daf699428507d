package nft

import (
	"encoding/binary"
	"hash/fnv"
	"maps"
	"slices"

	"golang.org/x/sys/unix"
)

// Print tells the rules of a chain from others, as the kernel gives them back:
// their expressions and comments, in order. It says nothing of what they mean. That
// the kernel gives the same rules back alike is all that it rests on: what nft
// makes of a text differs between its versions, and the names of a rule's anonymous
// sets from one writing to the next.
type Print uint64

// and adds a rule.
func (p Print) and(rule []byte) Print {
	return p.of(attribute(rule, unix.NFTA_RULE_EXPRESSIONS), attribute(rule, unix.NFTA_RULE_USERDATA))
}

func (p Print) of(parts ...[]byte) Print {
	h := fnv.New64a()
	for _, part := range append([][]byte{binary.BigEndian.AppendUint64(nil, uint64(p))}, parts...) {
		_, _ = h.Write(part) // never fails
	}
	return Print(h.Sum64())
}

// Prints are those of a table's chains by name, without the empty ones; and under
// ofProgram that of the program's version.
type Prints map[string]Print

// ofProgram is no chain's name.
const ofProgram = ""

func (h *held) prints() Prints {
	p := Prints{ofProgram: Print(0).of([]byte(h.program))}
	for name, c := range h.chains {
		if c.rules > 0 {
			p[name] = c.print
		}
	}
	return p
}

// Replaced names the chains that have other rules than they had. Those that were
// added, are gone or empty are found otherwise, and so is another program, of which
// nobody knows what it should have: a release that tells no prints wrote it, or an
// agent that was killed before it told them.
func (p Prints) Replaced(now Prints) []string {
	if !p.comparable(now) {
		return nil
	}
	var out []string
	for name, is := range now {
		if was, ok := p[name]; ok && was != is {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

func (p Prints) comparable(o Prints) bool { return p != nil && p[ofProgram] == o[ofProgram] }

// Expect says what the chains had when they were written last, be it by another
// process: where the kernel has something else when it's read, they are written
// anew. It must not be called beside Sync.
func (k *Kernel) Expect(p Prints) { k.prints.Store(&p) }

// Prints are what the chains have since they were written last, nil where that
// isn't known. It may be called beside Sync.
func (k *Kernel) Prints() Prints {
	if p := k.prints.Load(); p != nil {
		return *p
	}
	return nil
}

// suspect makes rules that aren't what they were a reason to write all anew. What
// was expected is learnt anew by that: one difference is one rewriting.
func (k *Kernel) suspect(h *held) {
	now := h.prints()
	k.replaced = k.Prints().Replaced(now)
	k.doubt = k.doubt || k.replaced != nil
	if !k.Prints().comparable(now) {
		k.prints.Store(&now)
	}
}

// Replaced names the chains whose rules somebody had replaced when the table was
// read back last.
func (k *Kernel) Replaced() []string { return k.replaced }

// learn takes the prints of what has been written. If they can't be read, nothing
// is known. If somebody has written since, the journal tells, and all is written
// anew.
func (k *Kernel) learn() {
	k.prints.Store(nil)
	if p, err := k.reader.prints(k.family, k.schema); err == nil {
		k.prints.Store(&p)
	}
}

// prints reads the rules alone.
func (netlinkReader) prints(f Family, schema *Schema) (Prints, error) {
	s, err := openSocket(f)
	if err != nil {
		return nil, err
	}
	defer s.close()
	h := &held{chains: map[string]heldChain{}}
	if err := h.readChains(s, schema); err != nil {
		return nil, err
	}
	err = h.readRules(s, schema)
	return h.prints(), err
}

// Same reports whether two are equal.
func (p Prints) Same(o Prints) bool { return maps.Equal(p, o) }
