package gossip

import (
	"context"
	"errors"
	"log"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/memberlist"
	"golang.org/x/sync/errgroup"

	"pointsman/state/event"
)

// Cluster is this host's part in the fleet. Its methods may be called at any
// time, before Run and while it runs.
type Cluster struct {
	cfg     ClusterConfig
	keys    *keyringFile // used by tend only
	disk    disk
	queues  *queues
	traffic traffic
	alive   atomic.Int64
	list    atomic.Pointer[memberlist.Memberlist] // nil while this host doesn't listen

	saving sync.Mutex // held while the drains are written

	changed chan struct{}
	wake    chan struct{} // something for tend to do
	rejoin  chan struct{} // peers were added
	sync    chan string   // a member with other members than this host's
	outbox  chan reply
	waiting chan letter // questions of others
	thanks  chan string // for large packets, from whom

	questions chan reply // of this host; unbuffered, as somebody waits

	mu          sync.Mutex // never held while memberlist is called
	store       *store
	members     *members
	troubles    troubles
	compare     comparison // of what is gossiped
	compareWho  comparison // of who is alive
	warned      tokens
	asking      map[uint64]*inquiry // by the question's id
	memberLog   tokens
	counts      Stats // those that are counted here
	view        *View // nil: something changed
	statement   statement
	speaks      bool          // Publish was called
	unsaid      bool          // the statement isn't said yet
	drainsDirty bool          // to be saved
	skew        time.Duration // by which fleetTime is ahead of this host's clock
	started     time.Time
	assertions  int // how often this host had to take a new incarnation
}

// NewCluster makes this host's part in the fleet; Run takes part. It fails only
// for what's wrong with the configuration and must be set right by somebody.
func NewCluster(cfg ClusterConfig) (*Cluster, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	keys, err := openKeyring(cfg.KeyringFile)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	c := &Cluster{
		cfg: cfg, keys: keys, disk: disk{cfg.StateDir}, troubles: troubles{},
		changed: make(chan struct{}, 1), wake: make(chan struct{}, 1), rejoin: make(chan struct{}, 1),
		sync:    make(chan string, 1),
		outbox:  make(chan reply, 256),
		waiting: make(chan letter, maxWaiting),
		thanks:  make(chan string, 1),
		asking:  map[uint64]*inquiry{}, questions: make(chan reply),
		started: now,
		compare: comparison{pace: exchangePace()}, compareWho: comparison{pace: memberPace()},
		members: &members{self: cfg.NodeName, all: map[string]*memberEntry{}},
	}
	c.queues = newQueues(retransmitMult, func() int { return int(c.alive.Load()) })
	incarnation, err := c.disk.nextIncarnation()
	c.store = newStore(cfg.NodeName, incarnation)
	c.store.member = c.members.known
	drains, drainsErr := c.disk.drains()
	c.store.drains, c.store.drainTime = drains, func(time.Time) time.Time { return c.fleetTime() }
	c.troubleLocked(BadState, errors.Join(err, drainsErr))
	return c, nil
}

// Changed gives a signal after each change of what View gives.
func (c *Cluster) Changed() <-chan struct{} { return c.changed }

func poke(ch chan<- struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// changedLocked makes the next View a new one.
func (c *Cluster) changedLocked() {
	c.view = nil
	poke(c.changed)
}

// noteLocked takes notice of a trouble with another host.
func (c *Cluster) noteLocked(t Trouble) {
	if t.Member == "" && t.Address.IsValid() {
		t.Member = c.members.at(t.Address)
	}
	c.view = nil
	if c.troubles.note(t, time.Now()) {
		c.tellTrouble(t)
		poke(c.changed)
	}
}

// troubleLocked takes notice of a trouble of this host, or of its end.
func (c *Cluster) troubleLocked(k TroubleKind, err error) {
	if !c.troubles.set(k, err, time.Now()) {
		return
	}
	if err != nil {
		c.cfg.Log.Error("gossip: "+string(k), "reason", event.FleetTrouble, "error", err)
	}
	c.changedLocked()
}

func (c *Cluster) trouble(k TroubleKind, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.troubleLocked(k, err)
}

// tell takes what memberlist says in its log.
func (c *Cluster) tell(h hint) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if h.trouble.Kind != "" {
		c.noteLocked(h.trouble)
	}
	if h.trouble.Kind == UDPBlocked { // no hash comes with its answers
		c.compared(h.trouble.Member, false)
	}
	if e := c.members.all[h.suspect]; e != nil {
		e.suspected = time.Now()
		c.changedLocked()
	}
	if e := c.members.all[h.missed]; e != nil {
		e.miss(time.Now())
		c.view = nil
	}
}

// Run takes part until ctx is done; it then returns nil. It leaves silently: to
// the others a stopped agent is one that died, and its host may well go on.
func (c *Cluster) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { c.tend(ctx); return nil })
	if !c.cfg.alone() {
		group.Go(func() error { c.takePart(ctx); return nil })
	}
	return group.Wait()
}

const (
	minListenWait = time.Second
	maxListenWait = 30 * time.Second
	senders       = 4
)

// takePart listens, as soon as that is possible, until ctx is done.
func (c *Cluster) takePart(ctx context.Context) {
	for wait := minListenWait; ; wait = min(2*wait, maxListenWait) {
		list, err := c.listen()
		c.trouble(CannotListen, err)
		if err == nil {
			c.serve(ctx, list)
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

func (c *Cluster) serve(ctx context.Context, list *memberlist.Memberlist) {
	c.list.Store(list)
	var group errgroup.Group
	for range senders {
		group.Go(func() error { c.deliver(ctx, list, c.outbox); return nil })
	}
	for range askers {
		group.Go(func() error { c.deliver(ctx, list, c.questions); return nil })
	}
	group.Go(func() error { c.answerOthers(ctx); return nil })
	group.Go(func() error { c.trySizes(ctx, list); return nil })
	c.keepJoined(ctx, list)
	_ = group.Wait()
	c.list.Store(nil)
	if err := list.Shutdown(); err != nil {
		c.cfg.Log.Warn("gossip: stop", "error", err)
	}
}

// listen makes the memberlist.
func (c *Cluster) listen() (*memberlist.Memberlist, error) {
	logger := log.New(&logWriter{log: c.cfg.Log, gate: logGate{}, tell: c.tell}, "", 0)
	transport := c.cfg.Transport
	if transport == nil {
		network, err := memberlist.NewNetTransport(&memberlist.NetTransportConfig{
			BindAddrs: []string{c.cfg.Bind.Addr().String()}, BindPort: int(c.cfg.Bind.Port()), Logger: logger,
		})
		if err != nil {
			return nil, err
		}
		transport = network
	}
	m := c.cfg.memberlistConfig(c.keys.ring)
	d := delegate{c}
	m.Delegate, m.Events, m.Ping, m.Alive, m.Conflict = d, d, d, d, d
	m.Logger, m.Transport = logger, meter{transport, &c.traffic}
	list, err := memberlist.Create(m)
	if err != nil {
		return nil, errors.Join(err, transport.Shutdown())
	}
	return list, nil
}

// deliver sends what is asked for to whom asked.
func (c *Cluster) deliver(ctx context.Context, list *memberlist.Memberlist, from <-chan reply) {
	for {
		select {
		case <-ctx.Done():
			return
		case r := <-from:
			c.mu.Lock()
			node := c.members.node(r.to)
			c.mu.Unlock()
			for _, m := range r.messages {
				if node == nil || ctx.Err() != nil {
					break
				}
				if err := list.SendReliable(node, m); err != nil {
					c.cfg.Log.Debug("gossip: send", "to", r.to, "error", err)
					break
				}
			}
		}
	}
}
