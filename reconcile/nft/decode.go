package nft

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"iter"

	"golang.org/x/sys/unix"
)

// The decoders of what the kernel sends are pure, and trust no length.

// attributes gives the netlink attributes in b, up to the first that is
// malformed.
func attributes(b []byte) iter.Seq2[uint16, []byte] {
	return func(yield func(uint16, []byte) bool) {
		for len(b) >= unix.SizeofNlAttr {
			n := int(binary.NativeEndian.Uint16(b))
			if n < unix.SizeofNlAttr || n > len(b) {
				return
			}
			kind := binary.NativeEndian.Uint16(b[2:]) &^ (unix.NLA_F_NESTED | unix.NLA_F_NET_BYTEORDER)
			if !yield(kind, b[unix.SizeofNlAttr:n]) {
				return
			}
			b = b[min(len(b), (n+3)&^3):]
		}
	}
}

// attribute gives the first attribute of a number, or nil.
func attribute(b []byte, number uint16) []byte {
	for n, value := range attributes(b) {
		if n == number {
			return value
		}
	}
	return nil
}

// number decodes a number in network byte order; an attribute that is absent
// is 0.
func number(b []byte) uint32 {
	if len(b) < 4 {
		return 0
	}
	return binary.BigEndian.Uint32(b)
}

func cstring(b []byte) string {
	if end := bytes.IndexByte(b, 0); end >= 0 {
		b = b[:end]
	}
	return string(b)
}

func decodeChain(b []byte) heldChain {
	hook := attribute(b, unix.NFTA_CHAIN_HOOK)
	if hook == nil {
		return heldChain{accept: true}
	}
	policy := attribute(b, unix.NFTA_CHAIN_POLICY)
	return heldChain{
		accept: policy == nil || number(policy) == acceptPolicy,
		hook: &Hook{
			Type:     cstring(attribute(b, unix.NFTA_CHAIN_TYPE)),
			Hook:     hookName(number(attribute(hook, unix.NFTA_HOOK_HOOKNUM))),
			Priority: int(int32(number(attribute(hook, unix.NFTA_HOOK_PRIORITY)))),
		},
	}
}

// acceptPolicy is the kernel's NF_ACCEPT.
const acceptPolicy = 1

func hookName(hook uint32) string {
	names := []string{"prerouting", "input", "forward", "output", "postrouting"}
	if hook < uint32(len(names)) {
		return names[hook]
	}
	return fmt.Sprint("hook ", hook)
}

// decodeRule leaves the expressions alone.
func decodeRule(b []byte) (chain, comment string) {
	data := attribute(b, unix.NFTA_RULE_USERDATA)
	for len(data) >= 2 && len(data) >= 2+int(data[1]) { // type, length, value
		if data[0] == commentUserdata {
			comment = cstring(data[2 : 2+int(data[1])])
			break
		}
		data = data[2+int(data[1]):]
	}
	return cstring(attribute(b, unix.NFTA_RULE_CHAIN)), comment
}

// commentUserdata is libnftnl's NFTNL_UDATA_RULE_COMMENT.
const commentUserdata = 0

// definition is what tells one set's definition from another's. Types are
// nft's own numbers, six bits a column; the kernel only keeps them.
type definition struct {
	name     string
	flags    uint32
	key      uint32
	data     uint32
	maxItems uint32
}

func decodeDefinition(b []byte) definition {
	d := definition{
		name:  cstring(attribute(b, unix.NFTA_SET_NAME)),
		flags: number(attribute(b, unix.NFTA_SET_FLAGS)) &^ concatFlag,
		key:   number(attribute(b, unix.NFTA_SET_KEY_TYPE)),
	}
	if d.flags&unix.NFT_SET_MAP != 0 {
		d.data = number(attribute(b, unix.NFTA_SET_DATA_TYPE))
	}
	d.maxItems = number(attribute(attribute(b, unix.NFTA_SET_DESC), unix.NFTA_SET_DESC_SIZE))
	return d
}

// concatFlag is NFT_SET_CONCAT, which follows from the key.
const concatFlag = 0x80

// definition gives what the kernel says of a set that is as it should be.
func (s *Set) definition(f Family) definition {
	d := definition{name: s.Name, key: f.typeNumber(s.Key)}
	switch {
	case s.Verdict:
		d.flags |= unix.NFT_SET_MAP
		d.data = unix.NFT_DATA_VERDICT
	case s.IsMap():
		d.flags |= unix.NFT_SET_MAP
		d.data = f.typeNumber(s.Value)
	}
	if s.Interval {
		d.flags |= unix.NFT_SET_INTERVAL
	}
	if s.Dynamic > 0 {
		d.flags |= unix.NFT_SET_TIMEOUT | unix.NFT_SET_EVAL
		d.maxItems = s.Dynamic
	}
	return d
}

// typeNumber gives the number of a type of several columns: nft's enum
// datatypes.
func (f Family) typeNumber(fields []Field) uint32 {
	var t uint32
	for _, field := range fields {
		n := uint32(7) // ipv4_addr
		switch field {
		case Proto:
			n = 12
		case Service, TCPService, UDPService, SCTPService:
			n = 13
		case Slot:
			n = 4 // integer
		case Addr:
			if f == IPv6 {
				n = 8
			}
		}
		t = t<<6 | n
	}
	return t
}
