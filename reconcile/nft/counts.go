package nft

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// Count is an element of a dynamic set that counts, with its counter.
type Count struct {
	Key     string // in nft's syntax, as an Element's
	Packets uint64
	Expires time.Duration // from now, if nothing more is counted
}

// Counts reads the elements of a dynamic set, in no order. A set that isn't
// there has none. It may be called beside a Kernel's methods: a list that's
// read while somebody writes may lack an element, or have it twice.
func Counts(f Family, set *Set) ([]Count, error) {
	s, err := openSocket(f)
	if err != nil {
		return nil, err
	}
	defer s.close()
	var counts []Count
	var malformed error
	err = s.list(set, func(element []byte) {
		c, err := set.decodeCount(f, element)
		if err != nil {
			malformed = err
		}
		counts = append(counts, c)
	})
	if errors.Is(err, unix.ENOENT) {
		return nil, nil
	}
	if err = errors.Join(err, malformed); err != nil {
		return nil, fmt.Errorf("list set %s %s %s: %w", f, TableName, set.Name, err)
	}
	return counts, nil
}

func (s *Set) decodeCount(f Family, b []byte) (c Count, err error) {
	e, err := s.decode(f, decodeElement(b))
	c.Key = e.Key
	if expr := attribute(b, unix.NFTA_SET_ELEM_EXPR); cstring(attribute(expr, unix.NFTA_EXPR_NAME)) == "counter" {
		c.Packets = number64(attribute(attribute(expr, unix.NFTA_EXPR_DATA), unix.NFTA_COUNTER_PACKETS))
	}
	c.Expires = timeLeft(b)
	return c, err
}

// number64 is number for 64 bits.
func number64(b []byte) uint64 {
	if len(b) < 8 {
		return 0
	}
	return binary.BigEndian.Uint64(b)
}
