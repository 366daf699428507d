package host

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Chain is a chain of any nf_tables table, iptables-nft's included.
type Chain struct {
	Family, Table, Name string

	// Type (filter, nat, route) is empty unless it is a base chain; then Hook
	// and Priority say where it is, and Drop what its policy is.
	Type, Hook string
	Priority   int32
	Drop       bool

	// Dormant is a chain of a table that is switched off.
	Dormant bool

	// Rules are read where a verdict of theirs may undo what we do: in base
	// chains of type filter on prerouting, input, forward and output, and in chains
	// that all packets go to from there.
	Rules []Rule
}

// Is reports whether the chain is in the given table.
func (c Chain) Is(family, table string) bool { return c.Family == family && c.Table == table }

// guards reports whether the chain decides about packets to, through or from
// this host.
func (c Chain) guards() bool {
	ip := c.Family == "ip" || c.Family == "ip6" || c.Family == "inet"
	return ip && c.Type == "filter" && !c.Dormant && slices.Contains([]string{"prerouting", "input", "forward", "output"}, c.Hook)
}

// readChains lists the chains of all tables. It asks the kernel, not nft: nft
// crashes or fails on what a newer nft has made (kubernetes/kubernetes#136786),
// and that there is something else in the ruleset is the very point here.
func readChains() ([]Chain, error) {
	dormant := map[[2]string]bool{}
	err := dumpNftables(unix.NFT_MSG_GETTABLE, unix.NFPROTO_UNSPEC, nil, func(family uint8, attributes []byte) {
		flags, _ := attribute(attributes, unix.NFTA_TABLE_FLAGS)
		name, _ := attribute(attributes, unix.NFTA_TABLE_NAME)
		if number(flags)&unix.NFT_TABLE_F_DORMANT != 0 {
			dormant[[2]string{familyName(family), text(name)}] = true
		}
	})
	if err != nil {
		return nil, fmt.Errorf("list tables: %w", err)
	}
	var chains []Chain
	err = dumpNftables(unix.NFT_MSG_GETCHAIN, unix.NFPROTO_UNSPEC, nil, func(family uint8, attributes []byte) {
		c := parseChain(family, attributes)
		c.Dormant = dormant[[2]string{c.Family, c.Table}]
		chains = append(chains, c)
	})
	if err != nil {
		return nil, fmt.Errorf("list chains: %w", err)
	}
	return chains, readRules(chains)
}

// readRules reads the rules of the chains that guard something, and of those
// that all packets go to from there.
func readRules(chains []Chain) error {
	byName := make(map[[3]string]*Chain, len(chains))
	var todo []*Chain
	for i := range chains {
		c := &chains[i]
		byName[[3]string{c.Family, c.Table, c.Name}] = c
		if c.guards() && !c.ours() {
			todo = append(todo, c)
		}
	}
	seen := map[*Chain]bool{}
	for len(todo) > 0 {
		c := todo[0]
		todo = todo[1:]
		if seen[c] {
			continue
		}
		seen[c] = true
		if err := c.readRules(); err != nil {
			return fmt.Errorf("list rules of %s %s %s: %w", c.Family, c.Table, c.Name, err)
		}
		for _, r := range c.Rules {
			if next := byName[[3]string{c.Family, c.Table, r.Target}]; next != nil && !r.Conditional {
				todo = append(todo, next)
			}
		}
	}
	return nil
}

func (c Chain) ours() bool { return c.Is("ip", "pointsman") || c.Is("ip6", "pointsman") }

func (c *Chain) readRules() error {
	only := []*nl.RtAttr{
		nl.NewRtAttr(unix.NFTA_RULE_TABLE, nl.ZeroTerminated(c.Table)),
		nl.NewRtAttr(unix.NFTA_RULE_CHAIN, nl.ZeroTerminated(c.Name)),
	}
	c.Rules = nil
	return dumpNftables(unix.NFT_MSG_GETRULE, familyNumber(c.Family), only, func(_ uint8, attributes []byte) {
		// A kernel that doesn't know the filter sends all of the family's rules.
		table, _ := attribute(attributes, unix.NFTA_RULE_TABLE)
		chain, _ := attribute(attributes, unix.NFTA_RULE_CHAIN)
		if text(table) == c.Table && text(chain) == c.Name {
			c.Rules = append(c.Rules, parseRule(attributes))
		}
	})
}

// dumpNftables lists objects of nf_tables.
func dumpNftables(message int, family uint8, only []*nl.RtAttr, visit func(family uint8, attributes []byte)) error {
	answers, err := dump(func() ([][]byte, error) {
		req := nl.NewNetlinkRequest(unix.NFNL_SUBSYS_NFTABLES<<8|message, unix.NLM_F_DUMP)
		req.AddData(&nl.Nfgenmsg{NfgenFamily: family, Version: nl.NFNETLINK_V0})
		for _, a := range only {
			req.AddData(a)
		}
		return req.Execute(unix.NETLINK_NETFILTER, 0)
	})
	if err != nil {
		return err
	}
	for _, a := range answers {
		if len(a) >= netfilterHeader {
			visit(a[0], a[netfilterHeader:])
		}
	}
	return nil
}

func parseChain(family uint8, attributes []byte) Chain {
	get := func(kind uint16) []byte {
		value, _ := attribute(attributes, kind)
		return value
	}
	c := Chain{
		Family: familyName(family), Table: text(get(unix.NFTA_CHAIN_TABLE)), Name: text(get(unix.NFTA_CHAIN_NAME)),
		Type: text(get(unix.NFTA_CHAIN_TYPE)),
	}
	hook, base := attribute(attributes, unix.NFTA_CHAIN_HOOK)
	if !base {
		return c
	}
	at, _ := attribute(hook, unix.NFTA_HOOK_HOOKNUM)
	priority, _ := attribute(hook, unix.NFTA_HOOK_PRIORITY)
	c.Hook, c.Priority = hookName(c.Family, number(at)), int32(number(priority))
	policy, known := attribute(attributes, unix.NFTA_CHAIN_POLICY)
	c.Drop = known && number(policy) == verdictDrop
	return c
}

// familyNames are the families by their number.
var familyNames = map[uint8]string{
	unix.NFPROTO_INET: "inet", unix.NFPROTO_IPV4: "ip", unix.NFPROTO_ARP: "arp",
	unix.NFPROTO_NETDEV: "netdev", unix.NFPROTO_BRIDGE: "bridge", unix.NFPROTO_IPV6: "ip6",
}

func familyName(family uint8) string {
	if name := familyNames[family]; name != "" {
		return name
	}
	return fmt.Sprintf("family %d", family)
}

func familyNumber(name string) uint8 {
	for number, n := range familyNames {
		if n == name {
			return number
		}
	}
	return unix.NFPROTO_UNSPEC
}

// hookName names a hook; the numbers of netdev and arp have other meanings.
func hookName(family string, hook uint32) string {
	names := []string{"prerouting", "input", "forward", "output", "postrouting", "ingress"}
	switch family {
	case "netdev":
		names = []string{"ingress", "egress"}
	case "arp":
		names = []string{"input", "output", "forward"}
	}
	if int(hook) < len(names) {
		return names[hook]
	}
	return fmt.Sprintf("hook %d", hook)
}

// number reads a number as nf_tables writes it, 0 where there is none.
func number(b []byte) uint32 {
	if len(b) != 4 {
		return 0
	}
	return binary.BigEndian.Uint32(b)
}

func text(b []byte) string { return unix.ByteSliceToString(b) }
