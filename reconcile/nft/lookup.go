package nft

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"net/netip"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Lookup is what is asked of the kernel's table.
type Lookup struct {
	// Frontends name the groups of frontends whose elements are asked for.
	Frontends []string

	// Slots says how many slot numbers of a frontend are looked at, from 0 on,
	// given its name and its elements that have no slot.
	Slots func(string, *Group) int

	// Keys are elements that are asked for one by one: their Set and Key count.
	// The elements of a frontend that are keyed by more than a slot are among
	// them, if they are to be found. Those of sets of ranges are found anyway.
	Keys []Element

	// Client is looked for in the client sets, as a client of the first of the
	// Frontends.
	Client netip.Addr
}

// Found is what the kernel's table holds of what a Lookup asked for.
type Found struct {
	// Gone: no packet meets the table, since it isn't there, or is dormant.
	Gone bool

	// Faults say what is wrong with the table, its chains and its sets. Where
	// there are any, what elements say may not be what packets meet.
	Faults []string

	// Groups are what was asked for, as far as it's there.
	Groups map[string]*Group

	// Rules counts the rules of each chain, and Prints tells them from others.
	Rules  map[string]int
	Prints Prints

	// Bindings are where client sets hold the client, by slot.
	Bindings []Binding

	// Unsteady: somebody wrote all the while, so that something may be missing.
	Unsteady bool
}

// Binding is a client's entry in the client set of a slot number.
type Binding struct {
	Slot int
	Left time.Duration // until the kernel forgets it, if the client doesn't come again
}

// Group gives the elements of a group, or nil.
func (f *Found) Group(id string) *Group { return f.Groups[id] }

// Look asks the kernel for a few things of a table, beside whoever writes it
// and without stopping him. program is a table with the chains and sets that
// there should be.
//
// It asks by keys. To list a map of 100,000 elements takes the kernel 0.6 s,
// since for each answer it walks to where it was; a key takes it microseconds.
// So what somebody has put where nobody looks for it, an element of a slot far
// beyond the last, isn't found.
func Look(program *Table, q Lookup, generation func() (uint32, error)) (*Found, error) {
	for attempt := 1; ; attempt++ {
		before, err := generation()
		if err != nil {
			return nil, fmt.Errorf("generation id: %w", err)
		}
		found, err := look(program, &q)
		after, err2 := generation()
		switch {
		case err2 != nil:
			return nil, fmt.Errorf("generation id: %w", err2)
		case err == nil && before == after:
			return found, nil
		case err == nil && attempt == attempts:
			found.Unsteady = true
			return found, nil
		case attempt == attempts, err != nil && !errors.Is(err, unix.ENOENT):
			return nil, fmt.Errorf("look into table %s %s: %w", program.Family, TableName, err)
		}
	}
}

func look(program *Table, q *Lookup) (*Found, error) {
	s, err := openSocket(program.Family)
	if err != nil {
		return nil, err
	}
	defer s.close()
	l := &looking{socket: s, program: program, asked: q, found: map[string][]Element{}}
	for _, step := range []func() error{l.readProgram, l.readFrontends, l.readKeys, l.readRanges, l.readClient} {
		if err := step(); err != nil {
			return nil, err
		}
		if !l.held.exists {
			break
		}
	}
	f := &Found{Gone: !l.held.exists || l.held.dormant, Faults: l.held.faults(program), Groups: map[string]*Group{},
		Rules: map[string]int{}, Prints: l.held.prints(), Bindings: l.bindings}
	for id, elements := range l.found {
		f.Groups[id] = NewGroup(elements)
	}
	for name, c := range l.held.chains {
		f.Rules[name] = c.rules
	}
	return f, nil
}

// looking is a Lookup that is being answered.
type looking struct {
	*socket
	program  *Table
	asked    *Lookup
	held     held
	found    map[string][]Element
	bindings []Binding
}

// readProgram reads everything but elements.
func (l *looking) readProgram() error {
	l.held = held{sets: map[string]heldSet{}, chains: map[string]heldChain{}}
	schema := l.program.Schema
	for _, read := range []func(*socket, *Schema) error{l.held.readTable, l.held.readChains, l.held.readRules, l.held.readFlowtables} {
		if err := read(l.socket, schema); err != nil || !l.held.exists {
			return err
		}
	}
	sets, err := l.definitions()
	for _, d := range sets {
		_, l.held.sets[d.name] = schema.find(l.family, d)
	}
	return err
}

// usable gives the schema's sets that are as they were defined.
func (l *looking) usable() iter.Seq[*Set] {
	return func(yield func(*Set) bool) {
		for i := range l.program.Schema.Sets {
			set := &l.program.Schema.Sets[i]
			if l.held.sets[set.Name].asDefined && set.Dynamic == 0 && !yield(set) {
				return
			}
		}
	}
}

// readFrontends asks for the frontends' elements: first those that have no other
// key, then the slots.
func (l *looking) readFrontends() error {
	for _, f := range l.asked.Frontends {
		for set := range l.usable() {
			if set.Group == len(set.Key) && !set.Interval {
				if err := l.readKey(set, f); err != nil {
					return err
				}
			}
		}
		slots := l.asked.Slots(f, NewGroup(slices.Clone(l.found[f])))
		for set := range l.usable() {
			if !set.hasSlotsOf(f) {
				continue
			}
			for slot := range slots {
				if err := l.readKey(set, f+" . "+itoa(slot)); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// hasSlotsOf reports whether a set is a map from the slots of such a frontend:
// there's one for each protocol.
func (s *Set) hasSlotsOf(frontend string) bool {
	if s.Group == 0 || s.Key[len(s.Key)-1] != Slot {
		return false
	}
	proto := map[Field]string{TCPService: "tcp", UDPService: "udp", SCTPService: "sctp"}[s.Value[len(s.Value)-1]]
	return strings.Contains(frontend, " . "+proto+" . ")
}

func (l *looking) readKeys() error {
	for _, want := range l.asked.Keys {
		for set := range l.usable() {
			if set.Name == want.Set && !set.Interval {
				if err := l.readKey(set, want.Key); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// readKey asks for one element.
func (l *looking) readKey(set *Set, text string) error {
	key, err := l.family.encode(set.Key, text)
	if err == nil {
		err = l.getElement(set, key, func(b []byte) { l.keep(set, decodeElement(b)) })
	}
	if err != nil {
		return fmt.Errorf("set %s: %w", set.Name, err)
	}
	return nil
}

// readRanges lists the sets of ranges, where a key can't be asked for, and keeps
// those of the frontends.
func (l *looking) readRanges() error {
	var frontends [][]byte
	for _, f := range l.asked.Frontends {
		key, err := l.family.encode(frontendFields, f)
		if err != nil {
			return err
		}
		frontends = append(frontends, key)
	}
	for set := range l.usable() {
		var err error
		switch {
		case set.Interval && set.Group == 0:
			err = l.readPlainRanges(set)
		case set.Interval:
			err = l.list(set, func(b []byte) {
				r := decodeElement(b)
				if slices.ContainsFunc(frontends, func(f []byte) bool { return bytes.HasPrefix(r.key, f) }) {
					l.keep(set, r)
				}
			})
		}
		if err != nil {
			return fmt.Errorf("set %s: %w", set.Name, err)
		}
	}
	return nil
}

func (l *looking) readPlainRanges(set *Set) error {
	elements, _, err := l.elements(set)
	for _, e := range elements {
		l.found[set.GroupID(e.Key)] = []Element{e}
	}
	return err
}

// keep decodes an element. One that can't be decoded isn't ours: it's given as
// far as that goes.
func (l *looking) keep(set *Set, r rawElement) {
	e, err := set.decode(l.family, r)
	if err != nil {
		e.Value = strings.TrimSpace(e.Value + " (" + err.Error() + ")")
	}
	id := set.GroupID(e.Key)
	l.found[id] = append(l.found[id], e)
}
