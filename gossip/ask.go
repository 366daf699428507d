package gossip

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"time"
)

// What is asked for now and then only, by somebody who waits for it, isn't
// gossiped: the members are asked, each over a stream of its own. What a
// question or an answer means is nobody's business here.

// The most bytes of a question, and of an answer.
const (
	maxQuestion = 1 << 10
	maxAnswered = 32 << 10
)

const (
	askers       = 8  // streams at once, while somebody asks
	maxWaiting   = 64 // questions of others that wait to be answered
	maxQuestions = 4  // of one member in a second
)

// A letter is a question, or an answer to one.
type letter struct {
	from string
	id   uint64 // the asker's
	body []byte // part of the message
}

func (l *letter) message(k kind) []byte {
	return appendBytes16(appendU64(appendStr8(begin(k), l.from), l.id), l.body)
}

// readLetter reads what follows the kind of a message.
func readLetter(k kind, r *wireReader) (l letter, ok bool) {
	l = letter{from: r.name(), id: r.u64(), body: r.bytes16()}
	limit := maxAnswered
	if k == kindQuestion {
		limit = maxQuestion
	}
	return l, !r.bad && len(l.body) <= limit
}

// inquiry is a question to several members.
type inquiry struct {
	open    map[string]bool // who has not answered yet
	answers map[string][]byte
	done    chan struct{} // closed when none is open
}

// Ask puts a question of at most 1 KiB to every live member but this host, and
// gives their answers until ctx is done, and who gave none. An earlier release
// gives none, nor does a member that is asked more often than
// maxQuestions.
func (c *Cluster) Ask(ctx context.Context, question []byte) (answers map[string][]byte, silent []string) {
	q := letter{c.cfg.NodeName, rand.Uint64(), question}
	names, i := c.beginAsking(q.id)
	message := q.message(kindQuestion)
	for _, name := range names {
		select {
		case <-ctx.Done():
		case c.questions <- reply{name, [][]byte{message}}:
		}
	}
	select {
	case <-ctx.Done():
	case <-i.done:
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.asking, q.id)
	return i.answers, slices.Sorted(maps.Keys(i.open))
}

// beginAsking gives the members to be asked. Without any, or as long as this host
// doesn't listen, that's nobody.
func (c *Cluster) beginAsking(id uint64) ([]string, *inquiry) {
	listens := c.list.Load() != nil
	c.mu.Lock()
	defer c.mu.Unlock()
	i := &inquiry{open: map[string]bool{}, answers: map[string][]byte{}, done: make(chan struct{})}
	names := c.members.others()
	if len(names) == 0 || !listens {
		close(i.done)
		return nil, i
	}
	for _, name := range names {
		i.open[name] = true
	}
	c.asking[id] = i
	return names, i
}

// receiveLetter takes a question, to be answered elsewhere, or an answer. One that
// nobody waits for any more is late, which is no fault.
func (c *Cluster) receiveLetter(k kind, r *wireReader, now time.Time) {
	l, ok := readLetter(k, r)
	switch {
	case !ok:
		c.store.refuse(k)
	case k == kindAnswer:
		c.asking[l.id].take(l)
	case c.cfg.Answer != nil && c.members.ask(l.from, k, now):
		select {
		case c.waiting <- l:
		default: // it's asked again
		}
	}
}

func (i *inquiry) take(a letter) {
	if i == nil || !i.open[a.from] {
		return
	}
	i.answers[a.from] = a.body
	if delete(i.open, a.from); len(i.open) == 0 {
		close(i.done)
	}
}

// answerOthers answers the questions of others, one at a time, until ctx is done.
func (c *Cluster) answerOthers(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case q := <-c.waiting:
			body := c.cfg.Answer(ctx, q.body)
			a := letter{c.cfg.NodeName, q.id, body[:min(len(body), maxAnswered)]}
			c.send(reply{q.from, [][]byte{a.message(kindAnswer)}})
		}
	}
}
