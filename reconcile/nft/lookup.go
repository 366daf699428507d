package nft

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Lookup is what is asked of the kernel's table.
type Lookup struct {
	// Frontend names the group of a frontend, all elements of which are asked
	// for; empty for none.
	Frontend string

	// Single are elements that are groups by themselves. Their Set and Key
	// count. Those of sets of ranges are always given.
	Single []Element

	// Client is looked for in the client sets, as a client of the Frontend.
	Client netip.Addr

	// Endpoint is looked for among the values of maps; with port 0, whatever
	// its port is.
	Endpoint netip.AddrPort
}

// Found is what the kernel's table holds of what a Lookup asked for.
type Found struct {
	// Gone: no packet meets the table, since it isn't there, or is dormant.
	Gone bool

	// Faults say what is wrong with the table, its chains and its sets. Where
	// there are any, what elements say may not be what packets meet.
	Faults []string

	// Groups are those that were asked for, as far as they are there.
	Groups map[string]*Group

	// Rules counts the rules of each chain.
	Rules map[string]int

	// Bindings are where client sets hold the client, by slot.
	Bindings []Binding

	// Holders are the elements that have the endpoint for a value.
	Holders []Element

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
// and without stopping him: by key where one is known, else by listing maps
// and keeping what matches, so that memory doesn't grow with the table. program
// is a table with the chains and sets that there should be.
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
	for _, step := range []func() error{l.readProgram, l.readElements, l.readSingle, l.readClient} {
		if err := step(); err != nil {
			return nil, err
		}
		if !l.held.exists {
			break
		}
	}
	f := &Found{Gone: !l.held.exists || l.held.dormant, Faults: l.held.faults(program), Groups: map[string]*Group{}, Rules: map[string]int{},
		Bindings: l.bindings, Holders: l.holders}
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
	holders  []Element
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
	return l.get(unix.NFT_MSG_GETSET, unix.NLM_F_DUMP, ours(), func(b []byte) {
		d := decodeDefinition(b)
		if d.flags&unix.NFT_SET_ANONYMOUS != 0 {
			return
		}
		i := slices.IndexFunc(schema.Sets, func(s Set) bool { return s.Name == d.name })
		l.held.sets[d.name] = heldSet{
			isMap:     d.flags&unix.NFT_SET_MAP != 0,
			asDefined: i < 0 && schema.onDemand(d.name) || i >= 0 && d == schema.Sets[i].definition(l.family),
		}
	})
}

// readElements lists the sets whose elements can't be asked for by their keys.
func (l *looking) readElements() error {
	for i := range l.program.Schema.Sets {
		set := &l.program.Schema.Sets[i]
		if !l.held.sets[set.Name].asDefined {
			continue
		}
		var err error
		switch {
		case set.Interval && set.Group == 0:
			err = l.readRanges(set)
		case set.Group > 0 && set.Dynamic == 0:
			err = l.readGroups(set)
		}
		if err != nil {
			return fmt.Errorf("set %s: %w", set.Name, err)
		}
	}
	return nil
}

func (l *looking) readRanges(set *Set) error {
	elements, _, err := l.elements(set)
	for _, e := range elements {
		l.found[set.GroupID(e.Key)] = []Element{e}
	}
	return err
}

// readGroups keeps the elements of the frontend, and those that hold the
// endpoint. What is the frontend's is told from the first bytes of a key: of
// 100,000 elements only those are decoded.
func (l *looking) readGroups(set *Set) error {
	var frontend, endpoint []byte
	if l.asked.Frontend != "" {
		key, err := l.family.encode(set.Key[:set.Group], l.asked.Frontend)
		if err != nil {
			return err
		}
		if len(set.Key) == set.Group {
			return l.getElement(set, key, func(b []byte) { l.keep(set, decodeElement(b), true) })
		}
		frontend = key
	}
	if a := l.asked.Endpoint; a.Addr().IsValid() && len(set.Value) > 0 {
		endpoint = l.family.endpoint(a)
	}
	if frontend == nil && endpoint == nil {
		return nil
	}
	return l.eachElement(set, func(b []byte) {
		r := decodeElement(b)
		if frontend != nil && bytes.HasPrefix(r.key, frontend) {
			l.keep(set, r, true)
		}
		if endpoint != nil && bytes.HasPrefix(r.value, endpoint) {
			l.keep(set, r, false)
		}
	})
}

// keep decodes an element of the frontend, or one that holds the endpoint. One
// that can't be decoded isn't ours: it's given as far as that goes.
func (l *looking) keep(set *Set, r rawElement, ofFrontend bool) {
	e, err := set.decode(l.family, r)
	switch {
	case err != nil:
		e.Value = strings.TrimSpace(e.Value + " (" + err.Error() + ")")
		fallthrough
	case ofFrontend:
		id := set.GroupID(e.Key)
		l.found[id] = append(l.found[id], e)
	default:
		l.holders = append(l.holders, e)
	}
}

func (l *looking) readSingle() error {
	for _, want := range l.asked.Single {
		i := slices.IndexFunc(l.program.Schema.Sets, func(s Set) bool { return s.Name == want.Set })
		if i < 0 || !l.held.sets[want.Set].asDefined || l.program.Schema.Sets[i].Interval {
			continue
		}
		set := &l.program.Schema.Sets[i]
		key, err := l.family.encode(set.Key, want.Key)
		if err != nil {
			return err
		}
		if err := l.getElement(set, key, func(b []byte) { l.keep(set, decodeElement(b), true) }); err != nil {
			return fmt.Errorf("set %s: %w", set.Name, err)
		}
	}
	return nil
}

// readClient looks into the client set of each slot number that there is.
func (l *looking) readClient() error {
	if !l.asked.Client.IsValid() || l.asked.Frontend == "" {
		return nil
	}
	clients := &Set{Key: append([]Field{Addr}, frontendFields...)}
	key, err := l.family.encode(clients.Key, l.asked.Client.Unmap().String()+" . "+l.asked.Frontend)
	if err != nil {
		return err
	}
	for name := range l.held.sets {
		slot, err := strconv.Atoi(name[strings.LastIndexByte(name, '-')+1:])
		if err != nil || slices.ContainsFunc(l.program.Schema.Sets, func(s Set) bool { return s.Name == name }) {
			continue
		}
		clients.Name = name
		if err := l.getElement(clients, key, func(b []byte) {
			l.bindings = append(l.bindings, Binding{Slot: slot, Left: timeLeft(b)})
		}); err != nil {
			return fmt.Errorf("set %s: %w", name, err)
		}
	}
	slices.SortFunc(l.bindings, func(a, b Binding) int { return a.Slot - b.Slot })
	return nil
}

// frontendFields are the columns of a frontend.
var frontendFields = []Field{Addr, Proto, Service}

// eachElement lists a set; the bytes are valid during the call.
func (s *socket) eachElement(set *Set, visit func(element []byte)) error {
	request := appendAttribute(ours(), unix.NFTA_SET_ELEM_LIST_SET, []byte(set.Name+"\x00"))
	return s.get(unix.NFT_MSG_GETSETELEM, unix.NLM_F_DUMP, request, visitElements(visit))
}

// getElement asks for the element of a key. There may be none.
func (s *socket) getElement(set *Set, key []byte, visit func(element []byte)) error {
	element := appendAttribute(nil, unix.NFTA_SET_ELEM_KEY|unix.NLA_F_NESTED, appendAttribute(nil, unix.NFTA_DATA_VALUE, key))
	list := appendAttribute(nil, unix.NFTA_LIST_ELEM|unix.NLA_F_NESTED, element)
	request := appendAttribute(ours(), unix.NFTA_SET_ELEM_LIST_SET, []byte(set.Name+"\x00"))
	request = appendAttribute(request, unix.NFTA_SET_ELEM_LIST_ELEMENTS|unix.NLA_F_NESTED, list)
	err := s.get(unix.NFT_MSG_GETSETELEM, 0, request, visitElements(visit))
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	return err
}

func visitElements(visit func(element []byte)) func(answer []byte) {
	return func(answer []byte) {
		for number, element := range attributes(attribute(answer, unix.NFTA_SET_ELEM_LIST_ELEMENTS)) {
			if number == unix.NFTA_LIST_ELEM {
				visit(element)
			}
		}
	}
}

// timeLeft gives the time until an element is forgotten.
func timeLeft(element []byte) time.Duration {
	left := attribute(element, unix.NFTA_SET_ELEM_EXPIRATION)
	if len(left) != 8 {
		return 0
	}
	return time.Duration(min(binary.BigEndian.Uint64(left), maxMilliseconds)) * time.Millisecond
}

// maxMilliseconds is less than a Duration can hold.
const maxMilliseconds = 1 << 43

// encode gives the bytes of a key, or of its first columns, from nft's syntax.
func (f Family) encode(fields []Field, text string) ([]byte, error) {
	columns := strings.Split(text, " . ")
	if len(columns) != len(fields) {
		return nil, fmt.Errorf("key %q has %d columns, not %d", text, len(columns), len(fields))
	}
	var key []byte
	for i, field := range fields {
		b, err := f.encodeColumn(field, columns[i])
		if err != nil {
			return nil, fmt.Errorf("key %q: %w", text, err)
		}
		key = append(key, b...)
	}
	return key, nil
}

func (f Family) encodeColumn(field Field, text string) ([]byte, error) {
	b := make([]byte, 4)
	switch field {
	case Proto:
		for _, n := range []byte{unix.IPPROTO_TCP, unix.IPPROTO_UDP, unix.IPPROTO_SCTP} {
			if string(appendProto(nil, n)) == text {
				b[0] = n
				return b, nil
			}
		}
		return nil, fmt.Errorf("protocol %q", text)
	case Addr:
		a, err := netip.ParseAddr(text)
		if err == nil && a.Is6() != (f == IPv6) {
			err = fmt.Errorf("%s is of another family", a)
		}
		return a.AsSlice(), err
	case Slot:
		n, err := strconv.ParseUint(text, 10, 32)
		binary.NativeEndian.PutUint32(b, uint32(n))
		return b, err
	}
	n, err := strconv.ParseUint(text, 10, 16)
	binary.BigEndian.PutUint16(b, uint16(n))
	return b, err
}

// endpoint gives the bytes of a map's value, or those it begins with.
func (f Family) endpoint(a netip.AddrPort) []byte {
	if a.Addr().Is6() != (f == IPv6) {
		return nil
	}
	b := a.Addr().AsSlice()
	if a.Port() != 0 {
		b = binary.BigEndian.AppendUint16(b, a.Port())
	}
	return b
}
