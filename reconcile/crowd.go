package reconcile

import (
	"container/list"
	"net"
	"net/http"
	"sync"
)

// MaxConnections is how many there are of a sort: a hundred times those that a
// host's balancers, scrapers and operators have.
const MaxConnections = 500

// Crowd bounds the connections that HTTP servers have open together: whoever
// reaches a port could else use up the agent's memory and files. A newcomer takes
// the place of the one that has been there longest. Were newcomers turned away, those
// who keep all places would have a balancer take this host for dead.
type Crowd struct {
	most int

	mu    sync.Mutex
	open  *list.List // of net.Conn, oldest first
	place map[net.Conn]*list.Element
}

// NewCrowd makes a bound of so many connections.
func NewCrowd(most int) *Crowd {
	return &Crowd{most: most, open: list.New(), place: map[net.Conn]*list.Element{}}
}

// Note is a server's ConnState.
func (c *Crowd) Note(conn net.Conn, s http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch s {
	case http.StateNew:
		c.place[conn] = c.open.PushBack(conn)
		if c.open.Len() > c.most {
			oldest := c.open.Front().Value.(net.Conn)
			c.remove(oldest)
			oldest.Close()
		}
	case http.StateClosed, http.StateHijacked:
		c.remove(conn)
	}
}

func (c *Crowd) remove(conn net.Conn) {
	if at := c.place[conn]; at != nil {
		c.open.Remove(at)
		delete(c.place, conn)
	}
}
