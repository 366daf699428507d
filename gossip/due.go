package gossip

import (
	"container/heap"
	"time"

	"pointsman/state"
)

// due is a Check that something is to be done about at a time.
type due struct {
	at  time.Time
	key state.CheckKey
}

// dueQueue gives what's due, earliest first. Nothing is ever taken back: what is
// due too early, since plans changed, is looked at once more in vain.
type dueQueue struct{ all dueHeap }

func (q *dueQueue) push(d due) { heap.Push(&q.all, d) }

// pop takes the earliest one out, if its time has come.
func (q *dueQueue) pop(now time.Time) (due, bool) {
	if len(q.all) == 0 || now.Before(q.all[0].at) {
		return due{}, false
	}
	return heap.Pop(&q.all).(due), true
}

func (q *dueQueue) next() (time.Time, bool) {
	if len(q.all) == 0 {
		return time.Time{}, false
	}
	return q.all[0].at, true
}

// dueHeap is a dueQueue as container/heap wants it.
type dueHeap []due

func (h dueHeap) Len() int           { return len(h) }
func (h dueHeap) Less(i, j int) bool { return h[i].at.Before(h[j].at) }
func (h dueHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }

// Push appends a due.
func (h *dueHeap) Push(x any) { *h = append(*h, x.(due)) }

// Pop takes the last one out.
func (h *dueHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}
