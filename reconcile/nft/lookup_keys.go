package nft

import (
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

// readClient looks into the client set of each slot number that there is.
func (l *looking) readClient() error {
	if !l.asked.Client.IsValid() || len(l.asked.Frontends) == 0 {
		return nil
	}
	clients := &Set{Key: append([]Field{Addr}, frontendFields...)}
	key, err := l.family.encode(clients.Key, l.asked.Client.Unmap().String()+" . "+l.asked.Frontends[0])
	if err != nil {
		return err
	}
	for name, held := range l.held.sets {
		slot, err := strconv.Atoi(name[strings.LastIndexByte(name, '-')+1:])
		if err != nil || !held.asDefined || slices.ContainsFunc(l.program.Schema.Sets, func(s Set) bool { return s.Name == name }) {
			continue // another set, or somebody else's
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

// getElement asks for the element of a key. There may be none.
func (s *socket) getElement(set *Set, key []byte, visit func(element []byte)) error {
	element := appendAttribute(nil, unix.NFTA_SET_ELEM_KEY|unix.NLA_F_NESTED, appendAttribute(nil, unix.NFTA_DATA_VALUE, key))
	list := appendAttribute(nil, unix.NFTA_LIST_ELEM|unix.NLA_F_NESTED, element)
	request := appendAttribute(ours(), unix.NFTA_SET_ELEM_LIST_SET, []byte(set.Name+"\x00"))
	request = appendAttribute(request, unix.NFTA_SET_ELEM_LIST_ELEMENTS|unix.NLA_F_NESTED, list)
	err := s.get(unix.NFT_MSG_GETSETELEM, 0, request, eachElement(visit))
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	return err
}

// timeLeft gives the time until an element is forgotten.
func timeLeft(element []byte) time.Duration {
	left := number64(attribute(element, unix.NFTA_SET_ELEM_EXPIRATION))
	return time.Duration(min(left, maxMilliseconds)) * time.Millisecond
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
