package gossip

import (
	"encoding/binary"
	"slices"
	"time"
)

// Two members whose hashes differ find out what either lacks, in four steps:
//
//	sums      the hash of each group of observers
//	digest    the hash of each observer, of the groups that differ
//	details   versions of header and buckets, of the observers that differ
//	items     what the other one lacks, and details in return
//
// No step needs to remember one before: each is an answer to a message. So
// none can be waited for in vain, and what a step leaves out for its size is
// found by the next exchange.

// A reply is what an answer consists of: messages to the one that asked.
type reply struct {
	to       string
	messages [][]byte
}

// maxAnswer is the most bytes of items in one answer, and maxItems of one
// message with some.
const (
	maxAnswer = 1 << 20
	maxItems  = 256 << 10
)

// sumsMessage begins an exchange.
func (s *store) sumsMessage() []byte {
	m := appendStr8(begin(kindSums), s.self)
	m = append(appendU64(m, s.drains.sum()), groups)
	for _, sum := range s.sums {
		m = appendU64(m, sum)
	}
	return m
}

// answer gives the reply to a message of an exchange other than items. The
// zero reply has no messages.
func (s *store) answer(message []byte) reply {
	k, r, ok := open(message)
	if !ok || len(message) > maxStream {
		s.refuse(k)
		return reply{}
	}
	from := r.name()
	var messages [][]byte
	switch k {
	case kindSums:
		messages = s.answerSums(r)
	case kindDigest:
		messages = s.answerDigest(r)
	case kindDetails:
		messages = s.answerDetails(r)
	}
	if r.bad || from == s.self {
		s.refuse(k)
		return reply{}
	}
	return reply{from, messages}
}

// flagDrains asks for all drains, flagReturn for details in return.
const (
	flagDrains = 1
	flagReturn = 1
)

func (s *store) answerSums(r *wireReader) [][]byte {
	drains := r.u64() != s.drains.sum()
	if r.u8() != groups {
		r.bad = true
	}
	var differ uint64 // a bit for each group
	for g := range groups {
		if r.u64() != s.sums[g] {
			differ |= 1 << g
		}
	}
	if r.bad || differ == 0 && !drains {
		return nil
	}
	messages := [][]byte{s.digest(differ, drains)}
	if drains {
		messages = append(messages, s.itemMessages(s.drainItems())...)
	}
	return messages
}

func (s *store) digest(differ uint64, drains bool) []byte {
	m := append(appendStr8(begin(kindDigest), s.self), flagDrains*boolByte(drains))
	m = appendU64(m, differ)
	at := len(m)
	m = append(m, 0, 0)
	n := 0
	for name, o := range s.observers {
		if differ&(1<<groupOf(name)) != 0 {
			m = appendU64(appendStr8(m, name), o.sum)
			n++
		}
	}
	binary.BigEndian.PutUint16(m[at:], uint16(n))
	return m
}

func (s *store) answerDigest(r *wireReader) [][]byte {
	drains := r.u8()&flagDrains != 0
	differ := r.u64()
	theirs := map[string]uint64{}
	for n := r.u16(); n > 0 && !r.bad; n-- {
		name := r.name()
		theirs[name] = r.u64()
	}
	if r.bad {
		return nil
	}
	var names []string
	for name, sum := range theirs {
		if o := s.observers[name]; o == nil || o.sum != sum {
			names = append(names, name)
		}
	}
	for name := range s.observers {
		if _, listed := theirs[name]; !listed && differ&(1<<groupOf(name)) != 0 {
			names = append(names, name)
		}
	}
	var messages [][]byte
	if len(names) > 0 {
		messages = append(messages, s.details(names, flagReturn))
	}
	if drains {
		messages = append(messages, s.itemMessages(s.drainItems())...)
	}
	return messages
}

// details tells what is held of some observers. Each time it begins with
// another one, since not all may fit.
func (s *store) details(names []string, flags byte) []byte {
	slices.Sort(names)
	s.turn++
	m := append(appendStr8(begin(kindDetails), s.self), flags)
	at := len(m)
	m = append(m, 0, 0)
	n := 0
	for i := range names {
		next := s.appendDetail(m, names[(s.turn+i)%len(names)])
		if len(next) > maxStream {
			break
		}
		m = next
		n++
	}
	binary.BigEndian.PutUint16(m[at:], uint16(n))
	return m
}

func (s *store) appendDetail(m []byte, name string) []byte {
	o := s.observers[name]
	if o == nil {
		o = &observer{}
	}
	h := o.header
	if h == nil {
		h = &header{}
	}
	m = appendU64(appendU64(appendStr8(m, name), uint64(h.version)), h.sum)
	m = binary.BigEndian.AppendUint16(m, uint16(len(o.buckets)))
	for _, b := range o.buckets {
		m = append(appendU64(m, b.region.start), b.region.bits)
		m = appendU64(appendU64(m, uint64(b.version)), b.sum)
	}
	return m
}

// detail is what the other one holds of an observer: without the contents.
type detail struct {
	name    string
	header  header
	buckets buckets
}

func readDetail(r *wireReader) detail {
	d := detail{name: r.name(), header: header{version: version(r.u64()), sum: r.u64()}}
	for n := r.u16(); n > 0 && !r.bad; n-- {
		b := &bucket{region: region{r.u64(), r.u8()}, version: version(r.u64()), sum: r.u64()}
		last := len(d.buckets) - 1
		if !b.region.valid() || last >= 0 && compareRegions(d.buckets[last].region, b.region) >= 0 {
			r.bad = true
		}
		d.buckets = append(d.buckets, b)
	}
	return d
}

func (s *store) answerDetails(r *wireReader) [][]byte {
	giveBack := r.u8()&flagReturn != 0
	var items [][]byte
	var names []string
	for n := r.u16(); n > 0 && !r.bad; n-- {
		d := readDetail(r)
		if r.bad {
			return nil
		}
		items = append(items, s.lacking(d)...)
		names = append(names, d.name)
	}
	messages := s.itemMessages(items)
	if giveBack && len(names) > 0 {
		messages = append(messages, s.details(names, 0))
	}
	return messages
}

// lacking gives what the other one would take as news of an observer.
func (s *store) lacking(d detail) [][]byte {
	o := s.observers[d.name]
	if o == nil {
		return nil
	}
	var items [][]byte
	for _, b := range o.buckets {
		if d.buckets.wants(b) {
			items = append(items, b.message)
		}
	}
	if o.header != nil && o.header.sum != d.header.sum && o.header.newer(&d.header) {
		items = append(items, o.header.message)
	}
	return items
}

func (s *store) drainItems() [][]byte {
	var items [][]byte
	for _, d := range s.drains {
		items = append(items, d.message)
	}
	return items
}

// itemMessages packs items into messages, as many as an answer may have.
func (s *store) itemMessages(items [][]byte) [][]byte {
	var messages [][]byte
	head := appendStr8(begin(kindItems), s.self)
	m := slices.Clone(head)
	total := 0
	for _, item := range items {
		if total += len(item) + 2; total > maxAnswer {
			break
		}
		if len(m)+len(item)+2 > maxItems {
			messages = append(messages, m)
			m = slices.Clone(head)
		}
		m = appendBytes16(m, item)
	}
	if len(m) > len(head) {
		messages = append(messages, m)
	}
	return messages
}

// applyItems takes what was fetched, and gives what of it is to be passed on.
// The store keeps the message.
func (s *store) applyItems(message []byte, now time.Time) (news int, relay []queued) {
	_, r, ok := open(message)
	r.name()
	for ok && !r.bad && len(r.rest) > 0 && len(message) <= maxStream {
		item := slices.Clone(r.bytes16())
		if r.bad || !gossiped(item) {
			continue
		}
		h := s.apply(item, now)
		if h.news {
			news++
		}
		if h.relay && s.sync.take(now, syncRate, syncBurst) {
			relay = append(relay, queued{h.name, item, h.slow})
		}
	}
	if r.bad {
		s.refuse(kindItems)
	}
	return news, relay
}

// gossiped tells whether a message is one that's passed on.
func gossiped(message []byte) bool {
	return len(message) > 0 && kind(message[0]) >= kindBucket && kind(message[0]) <= kindDrain
}
