package nft

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"
)

// netlinkReader reads tables over netlink. The nft command could list them
// too, but as JSON, which takes ten times the memory, and it has crashed on
// what newer versions of it wrote (kubernetes/kubernetes#136786). Libraries
// that decode rules and types fail on what they don't know; here only what
// matters is decoded, and what others put into our tables is known by name.
type netlinkReader struct{}

// read reads everything in the table but the clients. The table's absence is
// an answer; an object's absence after it was listed is ENOENT.
func (netlinkReader) read(f Family, schema *Schema) (*held, error) {
	s, err := openSocket(f)
	if err != nil {
		return nil, err
	}
	defer s.close()
	h := &held{sets: map[string]heldSet{}, chains: map[string]heldChain{}, groups: map[string]*Group{}}
	for _, part := range []struct {
		name string
		read func(*socket, *Schema) error
	}{{"table", h.readTable}, {"chains", h.readChains}, {"rules", h.readRules}, {"flowtables", h.readFlowtables}, {"sets", h.readSets}} {
		if err := part.read(s, schema); err != nil {
			return nil, fmt.Errorf("%s: %w", part.name, err)
		}
		if !h.exists {
			break
		}
	}
	return h, nil
}

func (h *held) readTable(s *socket, _ *Schema) error {
	err := s.get(unix.NFT_MSG_GETTABLE, 0, ours(), func(b []byte) {
		h.exists = true
		h.dormant = number(attribute(b, unix.NFTA_TABLE_FLAGS))&unix.NFT_TABLE_F_DORMANT != 0
	})
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	return err
}

// readChains lists those of all tables of the family: the kernel can't be
// asked for one table's.
func (h *held) readChains(s *socket, _ *Schema) error {
	return s.get(unix.NFT_MSG_GETCHAIN, unix.NLM_F_DUMP, nil, func(b []byte) {
		if cstring(attribute(b, unix.NFTA_CHAIN_TABLE)) == TableName {
			h.chains[cstring(attribute(b, unix.NFTA_CHAIN_NAME))] = decodeChain(b)
		}
	})
}

// readRules counts the rules of each chain and takes their prints, and finds the
// program's version in the comment of the marked one.
func (h *held) readRules(s *socket, schema *Schema) error {
	return s.get(unix.NFT_MSG_GETRULE, unix.NLM_F_DUMP, ours(), func(b []byte) {
		name, comment := decodeRule(b)
		chain, ok := h.chains[name]
		if !ok {
			return
		}
		if name == schema.Marked && chain.rules == 0 {
			h.program = comment
		}
		chain.rules++
		chain.print = chain.print.and(b)
		h.chains[name] = chain
	})
}

func (h *held) readFlowtables(s *socket, _ *Schema) error {
	return s.get(unix.NFT_MSG_GETFLOWTABLE, unix.NLM_F_DUMP, ours(), func(b []byte) {
		h.flowtables = append(h.flowtables, cstring(attribute(b, flowtableName)))
	})
}

// flowtableName is the kernel's NFTA_FLOWTABLE_NAME.
const flowtableName = 2

func (h *held) readSets(s *socket, schema *Schema) error {
	sets, err := s.definitions()
	if err != nil {
		return err
	}
	groups := map[string][]Element{}
	for _, d := range sets {
		if err := h.readSet(s, schema, d, groups); err != nil {
			return fmt.Errorf("set %s: %w", d.name, err)
		}
	}
	for id, elements := range groups {
		h.groups[id] = NewGroup(elements)
	}
	return nil
}

// definitions lists the sets of our table.
func (s *socket) definitions() (sets []definition, err error) {
	err = s.get(unix.NFT_MSG_GETSET, unix.NLM_F_DUMP, ours(), func(b []byte) {
		// An anonymous set is a part of its rule.
		if d := decodeDefinition(b); d.flags&unix.NFT_SET_ANONYMOUS == 0 {
			sets = append(sets, d)
		}
	})
	return sets, err
}

// find gives the set of the schema that a definition is of, nil if it's none, and
// what that makes of the definition.
func (s *Schema) find(f Family, d definition) (*Set, heldSet) {
	h := heldSet{isMap: d.flags&unix.NFT_SET_MAP != 0}
	if i := slices.IndexFunc(s.Sets, func(s Set) bool { return s.Name == d.name }); i >= 0 {
		h.asDefined = d == s.Sets[i].definition(f)
		return &s.Sets[i], h
	}
	clients := s.Clients
	clients.Name = d.name
	h.asDefined = s.onDemand(d.name) && d == clients.definition(f)
	return nil, h
}

// readSet adds a set to what is held, and its elements to the groups. One that
// isn't as it was defined will be dropped with all its elements, so they don't
// matter, and neither do those that the kernel adds by itself.
func (h *held) readSet(s *socket, schema *Schema, d definition, groups map[string][]Element) error {
	set, state := schema.find(s.family, d)
	if set == nil || !state.asDefined || set.Dynamic > 0 {
		h.sets[d.name] = state
		return nil
	}
	elements, ok, err := s.elements(set)
	state.asDefined = ok
	h.sets[d.name] = state
	if err != nil || !ok {
		return err
	}
	for _, e := range elements {
		id := set.GroupID(e.Key)
		groups[id] = append(groups[id], e)
	}
	return nil
}

// elements lists the elements of a set. It's not ok if one of them can't be an
// element of such a set.
func (s *socket) elements(set *Set) (elements []Element, ok bool, err error) {
	ok = true
	decode := func(r rawElement) {
		e, err := set.decode(s.family, r)
		ok = ok && err == nil
		elements = append(elements, e)
	}
	each := decode
	var bounds []rawElement
	if set.Interval && len(set.Key) == 1 {
		each = func(r rawElement) {
			r.key = bytes.Clone(r.key)
			bounds = append(bounds, r)
		}
	}
	err = s.list(set, func(element []byte) { each(decodeElement(element)) })
	for _, r := range pairIntervals(bounds) {
		decode(r)
	}
	return elements, ok, err
}

// list hands each element of a set to a function; the bytes are valid during the
// call.
func (s *socket) list(set *Set, visit func(element []byte)) error {
	request := appendAttribute(ours(), unix.NFTA_SET_ELEM_LIST_SET, []byte(set.Name+"\x00"))
	return s.get(unix.NFT_MSG_GETSETELEM, unix.NLM_F_DUMP, request, eachElement(visit))
}

// eachElement visits the elements in an answer.
func eachElement(visit func(element []byte)) func(answer []byte) {
	return func(answer []byte) {
		for number, element := range attributes(attribute(answer, unix.NFTA_SET_ELEM_LIST_ELEMENTS)) {
			if number == unix.NFTA_LIST_ELEM {
				visit(element)
			}
		}
	}
}

// clients lists the elements of a client set.
func (netlinkReader) clients(f Family, set *Set) ([]Element, error) {
	s, err := openSocket(f)
	if err != nil {
		return nil, err
	}
	defer s.close()
	elements, ok, err := s.elements(set)
	if err == nil && !ok {
		err = errors.New("elements of another type")
	}
	return elements, err
}
