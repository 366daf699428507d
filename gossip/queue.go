package gossip

import "github.com/hashicorp/memberlist"

// queued is a message on its way to others. It replaces one of the same name
// that is still in the queue.
type queued struct {
	name    string
	message []byte
	slow    bool
}

// broadcast is a queued message as memberlist wants it.
type broadcast queued

func (b broadcast) Name() string                          { return b.name }
func (b broadcast) Message() []byte                       { return b.message }
func (b broadcast) Invalidates(memberlist.Broadcast) bool { return false } // the name does
func (b broadcast) Finished()                             {}

// maxQueued bounds each queue. Names do so already; this is for a fleet where
// everything fails at once.
const maxQueued = 8192

// queues holds what's on its way, in order of precedence: what this host itself
// says, so that it never waits behind what it passes on (as dskit has it); what
// others say; and headers, which may come late.
type queues struct {
	own, relayed, headers *memberlist.TransmitLimitedQueue
}

func newQueues(mult int, members func() int) *queues {
	queue := func() *memberlist.TransmitLimitedQueue {
		return &memberlist.TransmitLimitedQueue{RetransmitMult: mult, NumNodes: members}
	}
	return &queues{queue(), queue(), queue()}
}

func (q *queues) all() []*memberlist.TransmitLimitedQueue {
	return []*memberlist.TransmitLimitedQueue{q.own, q.relayed, q.headers}
}

// say queues what this host itself says.
func (q *queues) say(m queued) { enqueue(q.own, q.headers, m) }

// relay queues what another said.
func (q *queues) relay(m queued) { enqueue(q.relayed, q.headers, m) }

func enqueue(fast, slow *memberlist.TransmitLimitedQueue, m queued) {
	queue := fast
	if m.slow {
		queue = slow
	}
	queue.QueueBroadcast(broadcast(m))
	if queue.NumQueued() > maxQueued {
		queue.Prune(maxQueued)
	}
}

// take gives the messages for one packet with limit bytes left.
func (q *queues) take(overhead, limit int) [][]byte {
	var messages [][]byte
	for _, queue := range q.all() {
		more := queue.GetBroadcasts(overhead, limit)
		for _, m := range more {
			limit -= overhead + len(m)
		}
		messages = append(messages, more...)
	}
	return messages
}

func (q *queues) len() int {
	n := 0
	for _, queue := range q.all() {
		n += queue.NumQueued()
	}
	return n
}
