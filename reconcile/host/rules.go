package host

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// Rule is what a rule of a chain means, as far as it matters for packets of
// translated connections. The rest of its conditions is not looked into.
type Rule struct {
	// Conditional says that it looks at the packet; a rule that only counts
	// and logs doesn't.
	Conditional bool

	// DNAT says that its only condition is a translated destination: `ct
	// status dnat`, `-m conntrack --ctstate DNAT`.
	DNAT bool

	// Later says that it's for packets of connections that are known already, or
	// of none, and so for no first packet: `ct state established,related`, `invalid`.
	Later bool

	// Verdict is accept, drop, reject, jump, goto or return; empty where
	// there is none, or one that isn't understood. Target is where jump and
	// goto go.
	Verdict, Target string
}

// Numbers of the kernel's interface (linux/netfilter/nf_tables.h, nf_conntrack_common.h,
// xt_conntrack.h) that golang.org/x/sys/unix doesn't have.
const (
	verdictDrop = 0 // NF_DROP
	statusDNAT  = 1 << 5

	// struct xt_conntrack_mtinfo2 and 3: eight addresses, two numbers and five
	// ports come first.
	conntrackFlags   = 146 // match_flags, invert_flags, state_mask
	conntrackByState = 1 << 0
	stateDNAT        = 1 << 7

	// NF_CT_STATE_BIT and XT_CONNTRACK_STATE_BIT of invalid, established and related.
	statesKnown = 1<<0 | 1<<1 | 1<<2
)

// verdicts are the verdicts by their code (NF_ACCEPT, NFT_RETURN, ...).
var verdicts = map[int32]string{verdictDrop: "drop", 1: "accept", -5: "return", -3: "jump", -4: "goto"}

// expression is one step of a rule.
type expression struct {
	name string
	data []byte
}

func (e expression) get(kind uint16) []byte {
	value, _ := attribute(e.data, kind)
	return value
}

func parseRule(attributes []byte) Rule {
	var r Rule
	var conditions []expression
	for _, e := range expressions(attributes) {
		switch {
		case e.name == "counter", e.name == "log", e.name == "match" && text(e.get(unix.NFTA_MATCH_NAME)) == "comment":
		case e.name == "immediate" && r.decide(e):
		case e.name == "reject", e.name == "target" && text(e.get(unix.NFTA_TARGET_NAME)) == "REJECT":
			r.Verdict = "reject"
		default:
			conditions = append(conditions, e)
		}
	}
	r.Conditional = len(conditions) > 0
	r.DNAT = translated(conditions)
	r.Later = known(conditions)
	return r
}

func expressions(rule []byte) []expression {
	list, _ := attribute(rule, unix.NFTA_RULE_EXPRESSIONS)
	var out []expression
	for len(list) > 0 {
		kind, element, rest, ok := nextAttribute(list)
		if !ok {
			break
		}
		list = rest
		if kind == unix.NFTA_LIST_ELEM {
			name, _ := attribute(element, unix.NFTA_EXPR_NAME)
			data, _ := attribute(element, unix.NFTA_EXPR_DATA)
			out = append(out, expression{text(name), data})
		}
	}
	return out
}

// decide takes the verdict from an immediate expression, if it is one.
func (r *Rule) decide(e expression) bool {
	data := e.get(unix.NFTA_IMMEDIATE_DATA)
	verdict, ok := attribute(data, unix.NFTA_DATA_VERDICT)
	if !ok {
		return false
	}
	code, _ := attribute(verdict, unix.NFTA_VERDICT_CODE)
	target, _ := attribute(verdict, unix.NFTA_VERDICT_CHAIN)
	r.Verdict, r.Target = verdicts[int32(number(code))], text(target)
	return true
}

// translated reports whether conditions mean a translated destination, and
// nothing more.
func translated(conditions []expression) bool {
	switch {
	case len(conditions) == 1 && conditions[0].name == "match":
		return conntrackDNAT(conditions[0])
	case len(conditions) == 3 && conditions[0].name == "ct" && conditions[1].name == "bitwise" && conditions[2].name == "cmp":
		return statusIsDNAT(conditions[0], conditions[1], conditions[2])
	}
	return false
}

// known reports whether one of the conditions is a state that no first packet
// is in.
func known(conditions []expression) bool {
	for i, e := range conditions {
		switch {
		case e.name == "match" && conntrackKnown(e):
			return true
		case e.name == "ct" && i+2 < len(conditions) && stateIsKnown(e, conditions[i+1], conditions[i+2]):
			return true
		}
	}
	return false
}

// stateIsKnown understands `ct state established,related`: load, mask, and
// compare with zero.
func stateIsKnown(ct, bitwise, cmp expression) bool {
	mask := word(bitwise.get(unix.NFTA_BITWISE_MASK))
	return number(ct.get(unix.NFTA_CT_KEY)) == unix.NFT_CT_STATE && bitwise.name == "bitwise" && cmp.name == "cmp" &&
		number(cmp.get(unix.NFTA_CMP_OP)) == unix.NFT_CMP_NEQ && word(cmp.get(unix.NFTA_CMP_DATA)) == 0 && mask != 0 && mask&^statesKnown == 0
}

// statusIsDNAT understands `ct status dnat`: load, mask, and compare with zero
// or with the mask.
func statusIsDNAT(ct, bitwise, cmp expression) bool {
	if number(ct.get(unix.NFTA_CT_KEY)) != unix.NFT_CT_STATUS {
		return false
	}
	mask, value := word(bitwise.get(unix.NFTA_BITWISE_MASK)), word(cmp.get(unix.NFTA_CMP_DATA))
	switch number(cmp.get(unix.NFTA_CMP_OP)) {
	case unix.NFT_CMP_NEQ:
		return mask&statusDNAT != 0 && value == 0
	case unix.NFT_CMP_EQ:
		return mask == statusDNAT && value == statusDNAT
	}
	return false
}

// word reads the value of a register of the host's byte order.
func word(data []byte) uint32 {
	value, _ := attribute(data, unix.NFTA_DATA_VALUE)
	if len(value) != 4 {
		return 0
	}
	return binary.NativeEndian.Uint32(value)
}

// conntrackDNAT understands iptables' -m conntrack --ctstate DNAT.
func conntrackDNAT(match expression) bool {
	states, ok := conntrackStates(match)
	return ok && states&stateDNAT != 0
}

// conntrackKnown understands -m conntrack --ctstate RELATED,ESTABLISHED.
func conntrackKnown(match expression) bool {
	states, ok := conntrackStates(match)
	return ok && states != 0 && states&^statesKnown == 0
}

// conntrackStates gives the states that iptables' -m conntrack wants, revisions 2
// and 3, if it wants nothing more.
func conntrackStates(match expression) (states uint16, ok bool) {
	info := match.get(unix.NFTA_MATCH_INFO)
	if text(match.get(unix.NFTA_MATCH_NAME)) != "conntrack" || number(match.get(unix.NFTA_MATCH_REV)) < 2 || len(info) < conntrackFlags+6 {
		return 0, false
	}
	flags := binary.NativeEndian.Uint16(info[conntrackFlags:])
	inverted := binary.NativeEndian.Uint16(info[conntrackFlags+2:])
	return binary.NativeEndian.Uint16(info[conntrackFlags+4:]), flags == conntrackByState && inverted == 0
}
