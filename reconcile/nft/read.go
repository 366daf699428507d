package nft

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/google/nftables"
	"github.com/google/nftables/userdata"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// netlinkReader reads tables over netlink. The nft command could list them
// too, but as JSON, which takes ten times the memory, and it has crashed on
// what newer versions of it wrote (kubernetes/kubernetes#136786).
type netlinkReader struct{}

// attempts bounds the repetitions of a dump that another writer interrupted.
const attempts = 5

func (r netlinkReader) read(ctx context.Context, f Family, schema *Schema) (*held, error) {
	var err error
	for range attempts {
		var h *held
		if h, err = readTable(f, schema); err == nil {
			return h, nil
		}
		if ctx.Err() != nil || !errors.Is(err, unix.EINTR) && !errors.Is(err, unix.ENOENT) {
			return nil, err
		}
	}
	return nil, err
}

func (f Family) netlink() nftables.TableFamily {
	if f == IPv6 {
		return nftables.TableFamilyIPv6
	}
	return nftables.TableFamilyIPv4
}

// readTable reads everything in the table but the clients. The table's
// absence is an answer; an object's absence after it was listed is ENOENT.
func readTable(f Family, schema *Schema) (*held, error) {
	h := &held{sets: map[string]heldSet{}, chains: map[string]heldChain{}, groups: map[string]*Group{}}
	conn, err := nftables.New(nftables.AsLasting())
	if err != nil {
		return nil, err
	}
	defer conn.CloseLasting()
	table := &nftables.Table{Name: TableName, Family: f.netlink()}
	if _, err := conn.ListTableOfFamily(TableName, table.Family); err != nil {
		if errors.Is(err, unix.ENOENT) {
			return h, nil
		}
		return nil, err
	}
	h.exists = true
	if err := h.readChains(conn, table, schema); err != nil {
		return nil, err
	}
	return h, h.readSets(conn, table, f, schema)
}

func (h *held) readChains(conn *nftables.Conn, table *nftables.Table, schema *Schema) error {
	chains, err := conn.ListChainsOfTableFamily(table.Family)
	if err != nil {
		return err
	}
	rules, marks, err := readRules(table.Family)
	if err != nil {
		return fmt.Errorf("rules: %w", err)
	}
	h.program = marks[schema.Marked]
	for _, c := range chains {
		if c.Table.Name == table.Name {
			h.chains[c.Name] = chainOf(c, rules[c.Name])
		}
	}
	flowtables, err := conn.ListFlowtables(table)
	for _, ft := range flowtables {
		h.flowtables = append(h.flowtables, ft.Name)
	}
	return err
}

// readRules counts the rules of each chain of our table, and gives the comment
// of the first. It leaves the expressions alone: the library fails on some of
// them.
func readRules(family nftables.TableFamily) (count map[string]int, marks map[string]string, err error) {
	conn, err := netlink.Dial(unix.NETLINK_NETFILTER, nil)
	if err != nil {
		return nil, nil, err
	}
	defer conn.Close()
	table, err := netlink.MarshalAttributes([]netlink.Attribute{{Type: unix.NFTA_RULE_TABLE, Data: []byte(TableName + "\x00")}})
	if err != nil {
		return nil, nil, err
	}
	messages, err := conn.Execute(netlink.Message{
		Header: netlink.Header{Type: unix.NFNL_SUBSYS_NFTABLES<<8 | unix.NFT_MSG_GETRULE, Flags: netlink.Request | netlink.Dump},
		Data:   append([]byte{byte(family), unix.NFNETLINK_V0, 0, 0}, table...),
	})
	count, marks = map[string]int{}, map[string]string{}
	for _, m := range messages {
		chain, comment, err := decodeRule(m.Data)
		if err != nil {
			return nil, nil, err
		}
		if count[chain]++; count[chain] == 1 {
			marks[chain] = comment
		}
	}
	return count, marks, err
}

func decodeRule(b []byte) (chain, comment string, err error) {
	if len(b) < nfgenmsgLen {
		return "", "", errors.New("truncated message")
	}
	ad, err := netlink.NewAttributeDecoder(b[nfgenmsgLen:])
	if err != nil {
		return "", "", err
	}
	for ad.Next() {
		switch ad.Type() {
		case unix.NFTA_RULE_CHAIN:
			chain = ad.String()
		case unix.NFTA_RULE_USERDATA:
			comment, _ = userdata.GetString(ad.Bytes(), userdata.TypeComment)
		}
	}
	return chain, comment, ad.Err()
}

// nfgenmsgLen is the length of the header behind netlink's own: family,
// version and resource id.
const nfgenmsgLen = 4

func chainOf(c *nftables.Chain, rules int) heldChain {
	h := heldChain{rules: rules, accept: true}
	if c.Hooknum != nil && c.Priority != nil {
		h.hook = &Hook{Type: string(c.Type), Hook: hookName(*c.Hooknum), Priority: int(*c.Priority)}
		h.accept = c.Policy == nil || *c.Policy == nftables.ChainPolicyAccept
	}
	return h
}

func hookName(hook nftables.ChainHook) string {
	names := []string{"prerouting", "input", "forward", "output", "postrouting"}
	if int(hook) < len(names) {
		return names[hook]
	}
	return "hook " + itoa(int(hook))
}

func (h *held) readSets(conn *nftables.Conn, table *nftables.Table, f Family, schema *Schema) error {
	sets, err := conn.GetSets(table)
	if err != nil {
		return err
	}
	groups := map[string][]Element{}
	for _, s := range sets {
		if s.Anonymous {
			continue
		}
		i := slices.IndexFunc(schema.Sets, func(d Set) bool { return d.Name == s.Name })
		if i < 0 {
			clients := Set{Key: schema.Clients, Clients: true}
			h.sets[s.Name] = heldSet{isMap: s.IsMap, asDefined: schema.onDemand(s.Name) && clients.matches(f, s)}
			continue
		}
		elements, ok, err := readElements(conn, f, &schema.Sets[i], s)
		if err != nil {
			return err
		}
		h.sets[s.Name] = heldSet{isMap: s.IsMap, asDefined: ok}
		for _, e := range elements {
			id := schema.Sets[i].GroupID(e.Key)
			groups[id] = append(groups[id], e)
		}
	}
	for id, elements := range groups {
		h.groups[id] = NewGroup(elements)
	}
	return nil
}

// readElements gives a set's elements, and whether it is as it was defined.
// One that isn't will be dropped with all its elements, so they don't matter.
func readElements(conn *nftables.Conn, f Family, d *Set, s *nftables.Set) ([]Element, bool, error) {
	if !d.matches(f, s) {
		return nil, false, nil
	}
	raw, err := conn.GetSetElements(s)
	if err != nil {
		return nil, false, fmt.Errorf("elements of %s: %w", s.Name, err)
	}
	if d.Interval && !s.Concatenation {
		raw = pairIntervals(raw)
	}
	elements := make([]Element, 0, len(raw))
	for _, r := range raw {
		e, err := d.decode(f, r)
		if err != nil {
			return nil, false, nil
		}
		elements = append(elements, e)
	}
	return elements, true, nil
}

// matches reports whether a set in the kernel is as it was defined. The type
// of its key shows when elements are decoded.
func (s *Set) matches(f Family, k *nftables.Set) bool {
	if k.IsMap != s.IsMap() || k.Interval != s.Interval || k.HasTimeout != s.Clients || k.Dynamic != s.Clients {
		return false
	}
	if s.Clients && k.Size != clientsSize {
		return false
	}
	return s.Verdict || !s.IsMap() || k.DataType.Name == join(s.Value, f.typeName)
}

// width is the number of bytes of a column: every one is padded to 32 bits.
func (f Family) width(field Field) int {
	if field == Addr && f == IPv6 {
		return 16
	}
	return 4
}

// clients lists the elements of a client set.
func (netlinkReader) clients(_ context.Context, f Family, set *Set) ([]Element, error) {
	conn, err := nftables.New()
	if err != nil {
		return nil, err
	}
	table := &nftables.Table{Name: TableName, Family: f.netlink()}
	raw, err := conn.GetSetElements(&nftables.Set{Table: table, Name: set.Name})
	if err != nil {
		return nil, err
	}
	elements := make([]Element, 0, len(raw))
	for _, r := range raw {
		e, err := set.decode(f, r)
		if err != nil {
			return nil, err
		}
		elements = append(elements, e)
	}
	return elements, nil
}

// decode turns an element's bytes into nft's syntax.
func (s *Set) decode(f Family, r nftables.SetElement) (Element, error) {
	e := Element{Set: s.Name}
	var err error
	if e.Key, err = f.decodeKey(s, r); err != nil {
		return e, err
	}
	switch {
	case s.Verdict:
		e.Value, err = decodeVerdict(r.Val)
	case s.IsMap():
		e.Value, err = f.columns(s.Value, r.Val, nil)
	}
	return e, err
}

func (f Family) decodeKey(s *Set, r nftables.SetElement) (string, error) {
	if !s.Interval {
		return f.columns(s.Key, r.Key, nil)
	}
	return f.columns(s.Key, r.Key, r.KeyEnd)
}

// columns decodes bytes column by column. With an end, the last column is a
// range, given as the prefix that it is.
func (f Family) columns(fields []Field, b, end []byte) (string, error) {
	var sb strings.Builder
	for i, field := range fields {
		n := f.width(field)
		if len(b) < n || end != nil && len(end) < n {
			return "", fmt.Errorf("%d bytes are too few for %d columns", len(b), len(fields))
		}
		if i > 0 {
			sb.WriteString(" . ")
		}
		if end != nil && i == len(fields)-1 {
			sb.WriteString(prefixText(b[:n], end[:n]))
		} else {
			sb.WriteString(column(field, b[:n]))
		}
		b = b[n:]
		if end != nil {
			end = end[n:]
		}
	}
	return sb.String(), nil
}

func column(field Field, b []byte) string {
	switch field {
	case Proto:
		return protoName(b[0])
	case Service, TCPService, UDPService, SCTPService:
		return strconv.Itoa(int(binary.BigEndian.Uint16(b)))
	case Slot:
		return strconv.FormatUint(uint64(binary.NativeEndian.Uint32(b)), 10)
	}
	a, _ := netip.AddrFromSlice(b)
	return a.String()
}

func protoName(n byte) string {
	switch n {
	case unix.IPPROTO_TCP:
		return "tcp"
	case unix.IPPROTO_UDP:
		return "udp"
	case unix.IPPROTO_SCTP:
		return "sctp"
	}
	return strconv.Itoa(int(n))
}

// prefixText gives the prefix from its first and last address. A range that
// is no prefix can't be ours; it's given as a range, and will be removed.
func prefixText(first, last []byte) string {
	bits := 0
	for i := range first {
		x := first[i] ^ last[i]
		for mask := byte(0x80); mask != 0 && x&mask == 0; mask >>= 1 {
			bits++
		}
		if x != 0 {
			break
		}
	}
	a, _ := netip.AddrFromSlice(first)
	z, _ := netip.AddrFromSlice(last)
	if p := netip.PrefixFrom(a, bits); p.Masked() == p && lastAddr(p) == z {
		return p.String()
	}
	return a.String() + "-" + z.String()
}

func lastAddr(p netip.Prefix) netip.Addr {
	b := p.Addr().AsSlice()
	for i := range b {
		host := min(8, max(0, (i+1)*8-p.Bits()))
		b[i] |= byte(1<<host - 1)
	}
	a, _ := netip.AddrFromSlice(b)
	return a
}

// pairIntervals gives each interval of a set of single addresses its last
// address: the kernel lists where intervals begin and where they end.
func pairIntervals(raw []nftables.SetElement) []nftables.SetElement {
	slices.SortFunc(raw, func(a, b nftables.SetElement) int { return slices.Compare(a.Key, b.Key) })
	var out []nftables.SetElement
	for i, r := range raw {
		if r.IntervalEnd {
			continue
		}
		end := make([]byte, len(r.Key)) // no end: up to the last address there is
		if i+1 < len(raw) {
			copy(end, raw[i+1].Key)
		}
		r.KeyEnd = before(end)
		out = append(out, r)
	}
	return out
}

// before gives the address before b, the last one before 0.
func before(b []byte) []byte {
	for i := len(b) - 1; i >= 0; i-- {
		b[i]--
		if b[i] != 0xff {
			break
		}
	}
	return b
}

// attrTypeMask takes the flags off a netlink attribute's type.
const attrTypeMask = ^uint16(unix.NLA_F_NESTED | unix.NLA_F_NET_BYTEORDER)

// decodeVerdict reads the netlink attributes of a verdict.
func decodeVerdict(b []byte) (string, error) {
	var code int32
	var chain string
	for len(b) >= 4 {
		n := int(binary.NativeEndian.Uint16(b))
		if n < 4 || n > len(b) {
			return "", errors.New("truncated verdict")
		}
		data := b[4:n]
		switch typ := binary.NativeEndian.Uint16(b[2:]) & attrTypeMask; {
		case typ == unix.NFTA_VERDICT_CODE && len(data) >= 4:
			code = int32(binary.BigEndian.Uint32(data))
		case typ == unix.NFTA_VERDICT_CHAIN:
			chain = strings.TrimRight(string(data), "\x00")
		}
		b = b[min(len(b), (n+3)&^3):]
	}
	switch code {
	case unix.NFT_GOTO:
		return "goto " + chain, nil
	case unix.NFT_JUMP:
		return "jump " + chain, nil
	case 0:
		return "drop", nil
	}
	return fmt.Sprintf("verdict %d", code), nil
}
