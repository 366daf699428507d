package nft

import (
	"errors"
	"fmt"
	"slices"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// netlinkReader reads tables over netlink. The nft command could list them
// too, but as JSON, which takes ten times the memory, and it has crashed on
// what newer versions of it wrote (kubernetes/kubernetes#136786). Libraries
// that decode rules and types fail on what they don't know; here only what
// matters is decoded, and what others put into our tables is known by name.
type netlinkReader struct{}

// session reads one table.
type session struct {
	conn   *netlink.Conn
	family Family
}

func (f Family) session() (*session, error) {
	conn, err := netlink.Dial(unix.NETLINK_NETFILTER, nil)
	if err != nil {
		return nil, err
	}
	return &session{conn: conn, family: f}, nil
}

func (f Family) netlink() byte {
	if f == IPv6 {
		return unix.NFPROTO_IPV6
	}
	return unix.NFPROTO_IPV4
}

// get sends a request about our table and gives the answers, without
// netfilter's header.
func (s *session) get(message uint16, flags netlink.HeaderFlags, attrs ...netlink.Attribute) ([][]byte, error) {
	data, err := netlink.MarshalAttributes(attrs)
	if err != nil {
		return nil, err
	}
	answers, err := s.conn.Execute(netlink.Message{
		Header: netlink.Header{Type: netlink.HeaderType(unix.NFNL_SUBSYS_NFTABLES<<8 | message), Flags: netlink.Request | flags},
		Data:   append([]byte{s.family.netlink(), unix.NFNETLINK_V0, 0, 0}, data...),
	})
	bodies := make([][]byte, 0, len(answers))
	for _, m := range answers {
		if len(m.Data) < nfgenmsgLen {
			return nil, errors.New("truncated answer")
		}
		bodies = append(bodies, m.Data[nfgenmsgLen:])
	}
	return bodies, err
}

// nfgenmsgLen is the length of the header behind netlink's own: family,
// version and resource id.
const nfgenmsgLen = 4

// flowtableName is the kernel's NFTA_FLOWTABLE_NAME.
const flowtableName = 2

// tableAttr names our table: its attribute is number 1 in messages of every
// kind.
func tableAttr() netlink.Attribute { return text(unix.NFTA_TABLE_NAME, TableName) }

func text(number uint16, s string) netlink.Attribute {
	return netlink.Attribute{Type: number, Data: []byte(s + "\x00")}
}

// read reads everything in the table but the clients. The table's absence is
// an answer; an object's absence after it was listed is ENOENT.
func (netlinkReader) read(f Family, schema *Schema) (*held, error) {
	s, err := f.session()
	if err != nil {
		return nil, err
	}
	defer s.conn.Close()
	h := &held{sets: map[string]heldSet{}, chains: map[string]heldChain{}, groups: map[string]*Group{}}
	tables, err := s.get(unix.NFT_MSG_GETTABLE, 0, tableAttr())
	if errors.Is(err, unix.ENOENT) {
		return h, nil
	}
	if err != nil || len(tables) == 0 {
		return nil, fmt.Errorf("table: %w", err)
	}
	h.exists = true
	h.dormant = number(attribute(tables[0], unix.NFTA_TABLE_FLAGS))&unix.NFT_TABLE_F_DORMANT != 0
	if err := h.readChains(s); err != nil {
		return nil, fmt.Errorf("chains: %w", err)
	}
	if err := h.readRules(s, schema); err != nil {
		return nil, fmt.Errorf("rules: %w", err)
	}
	if err := h.readFlowtables(s); err != nil {
		return nil, fmt.Errorf("flowtables: %w", err)
	}
	return h, h.readSets(s, schema)
}

func (h *held) readChains(s *session) error {
	chains, err := s.get(unix.NFT_MSG_GETCHAIN, netlink.Dump) // of all tables of the family
	for _, b := range chains {
		if cstring(attribute(b, unix.NFTA_CHAIN_TABLE)) == TableName {
			h.chains[cstring(attribute(b, unix.NFTA_CHAIN_NAME))] = decodeChain(b)
		}
	}
	return err
}

// readRules counts the rules of each chain, and finds the program's version in
// the comment of the marked one.
func (h *held) readRules(s *session, schema *Schema) error {
	rules, err := s.get(unix.NFT_MSG_GETRULE, netlink.Dump, tableAttr())
	for _, b := range rules {
		name, comment := decodeRule(b)
		chain, ok := h.chains[name]
		if !ok {
			continue
		}
		if name == schema.Marked && chain.rules == 0 {
			h.program = comment
		}
		chain.rules++
		h.chains[name] = chain
	}
	return err
}

func (h *held) readFlowtables(s *session) error {
	flowtables, err := s.get(unix.NFT_MSG_GETFLOWTABLE, netlink.Dump, tableAttr())
	for _, b := range flowtables {
		h.flowtables = append(h.flowtables, cstring(attribute(b, flowtableName)))
	}
	return err
}

func (h *held) readSets(s *session, schema *Schema) error {
	sets, err := s.get(unix.NFT_MSG_GETSET, netlink.Dump, tableAttr())
	if err != nil {
		return fmt.Errorf("sets: %w", err)
	}
	groups := map[string][]Element{}
	for _, b := range sets {
		d := decodeDefinition(b)
		if d.flags&unix.NFT_SET_ANONYMOUS != 0 { // a part of its rule
			continue
		}
		if err := h.readSet(s, schema, d, groups); err != nil {
			return fmt.Errorf("set %s: %w", d.name, err)
		}
	}
	for id, elements := range groups {
		h.groups[id] = NewGroup(elements)
	}
	return nil
}

// readSet adds a set to what is held, and its elements to the groups. One that
// isn't as it was defined will be dropped with all its elements, so they don't
// matter, and neither do those of a set of clients.
func (h *held) readSet(s *session, schema *Schema, d definition, groups map[string][]Element) error {
	isMap := d.flags&unix.NFT_SET_MAP != 0
	i := slices.IndexFunc(schema.Sets, func(s Set) bool { return s.Name == d.name })
	if i < 0 {
		clients := Set{Name: d.name, Key: schema.Clients, Clients: true}
		h.sets[d.name] = heldSet{isMap: isMap, asDefined: schema.onDemand(d.name) && d == clients.definition(s.family)}
		return nil
	}
	set := &schema.Sets[i]
	if d != set.definition(s.family) {
		h.sets[d.name] = heldSet{isMap: isMap}
		return nil
	}
	elements, ok, err := s.elements(set)
	if err != nil {
		return err
	}
	h.sets[d.name] = heldSet{isMap: isMap, asDefined: ok}
	for _, e := range elements {
		id := set.GroupID(e.Key)
		groups[id] = append(groups[id], e)
	}
	return nil
}

// elements lists the elements of a set. It's not ok if one of them can't be an
// element of such a set.
func (s *session) elements(set *Set) (elements []Element, ok bool, err error) {
	answers, err := s.get(unix.NFT_MSG_GETSETELEM, netlink.Dump, tableAttr(), text(unix.NFTA_SET_ELEM_LIST_SET, set.Name))
	if err != nil {
		return nil, false, err
	}
	var raw []rawElement
	for _, b := range answers {
		for number, element := range attributes(attribute(b, unix.NFTA_SET_ELEM_LIST_ELEMENTS)) {
			if number == unix.NFTA_LIST_ELEM {
				raw = append(raw, decodeElement(element))
			}
		}
	}
	if set.Interval && len(set.Key) == 1 {
		raw = pairIntervals(raw)
	}
	elements = make([]Element, 0, len(raw))
	for _, r := range raw {
		e, err := set.decode(s.family, r)
		if err != nil {
			return nil, false, nil
		}
		elements = append(elements, e)
	}
	return elements, true, nil
}

// clients lists the elements of a client set.
func (netlinkReader) clients(f Family, set *Set) ([]Element, error) {
	s, err := f.session()
	if err != nil {
		return nil, err
	}
	defer s.conn.Close()
	elements, ok, err := s.elements(set)
	if err == nil && !ok {
		err = errors.New("elements of another type")
	}
	return elements, err
}
