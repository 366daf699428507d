package reconcile

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"pointsman/state/event"
)

// HealthServers are the HTTP servers behind healthCheckNodePorts, one for each
// port and NodePort address. A server knows its port, not the Service: a port
// that goes from one Service to another keeps its listener, and no balancer
// sees it refused. None listens on a wildcard address: other addresses of the
// host are none of a balancer's business (kubernetes/kubernetes#122899), and
// the two families can't clash (#114702).
type HealthServers struct {
	log    *slog.Logger
	health *Health
	retry  time.Duration
	crowd  *Crowd // of all ports
	checks atomic.Pointer[map[uint16]HealthCheck]

	mu      sync.Mutex
	wanted  map[netip.AddrPort]bool
	running map[netip.AddrPort]*http.Server
	failed  map[netip.AddrPort]string // those wanted that can't listen, and why
	ended   bool
	serving sync.WaitGroup
}

// NewHealthServers makes the servers; none listens yet. The health decides
// about every answer, and is told of ports that can't be had.
func NewHealthServers(log *slog.Logger, health *Health) *HealthServers {
	return &HealthServers{
		log: log, health: health, retry: 5 * time.Second, crowd: NewCrowd(MaxConnections),
		running: map[netip.AddrPort]*http.Server{}, failed: map[netip.AddrPort]string{},
	}
}

// Set makes the given checks be answered on the given addresses, and nothing
// else. It is to be called when the kernel has been programmed accordingly. A
// port that can't be had is tried again by every Set, and by Run.
func (s *HealthServers) Set(checks map[uint16]HealthCheck, addrs []netip.Addr) {
	if s == nil {
		return
	}
	s.checks.Store(&checks)
	wanted := make(map[netip.AddrPort]bool, len(checks)*len(addrs))
	for port := range checks {
		for _, a := range addrs {
			wanted[netip.AddrPortFrom(a, port)] = true
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wanted = wanted
	s.reconcile()
}

// Worsen makes the answers as bad as they are going to be, and no better. It is
// to be called before the kernel is programmed: a balancer takes a while until it
// sends clients elsewhere, and none of them should come when it's too late.
func (s *HealthServers) Worsen(checks map[uint16]HealthCheck) {
	if s == nil {
		return
	}
	if now := s.checks.Load(); now != nil {
		worse := worsened(*now, checks)
		s.checks.Store(&worse)
	}
}

// Run tries again what could not be had, until ctx ends; then no server is
// left: balancers shall not send clients to a host that nobody looks after.
func (s *HealthServers) Run(ctx context.Context) error {
	tick := time.NewTicker(s.retry)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			s.end()
			return nil
		case <-tick.C:
			s.again()
		}
	}
}

func (s *HealthServers) again() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.failed) > 0 {
		s.reconcile()
	}
}

func (s *HealthServers) end() {
	s.mu.Lock()
	s.ended = true
	s.wanted = nil
	s.reconcile()
	s.mu.Unlock()
	s.serving.Wait()
}

// reconcile closes what isn't wanted and opens what is: in this order, since
// one address's port may be what kept another from being had.
func (s *HealthServers) reconcile() {
	closed, opened := 0, 0
	for at, srv := range s.running {
		if !s.wanted[at] {
			srv.Close()
			delete(s.running, at)
			closed++
		}
	}
	maps.DeleteFunc(s.failed, func(at netip.AddrPort, _ string) bool { return !s.wanted[at] })
	for _, at := range slices.SortedFunc(maps.Keys(s.wanted), netip.AddrPort.Compare) {
		if s.running[at] == nil && !s.ended && s.open(at) {
			opened++
		}
	}
	s.report()
	if opened+closed > 0 {
		s.log.Info("health check ports", "listening", len(s.running), "opened", opened, "closed", closed)
	}
}

// open starts a server. It binds in the caller's goroutine, so that when Set
// returns, connections are accepted.
func (s *HealthServers) open(at netip.AddrPort) bool {
	network := "tcp4"
	if at.Addr().Is6() {
		network = "tcp6"
	}
	listener, err := net.Listen(network, at.String())
	if err != nil {
		if s.failed[at] != err.Error() {
			s.log.Error("a health check port can't be had, will try again", "reason", event.HealthCheckPortFailed, "port", at, "error", err, "retry", s.retry)
		}
		s.failed[at] = err.Error()
		return false
	}
	delete(s.failed, at)
	srv := s.server(at)
	s.running[at] = srv
	s.serving.Go(func() {
		if err := srv.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			s.lost(at, srv, err)
		}
	})
	return true
}

// server makes a server whose clients may be strangers: NodePort addresses
// are where the network is.
func (s *HealthServers) server(at netip.AddrPort) *http.Server {
	return &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			check, ok := (*s.checks.Load())[at.Port()]
			if !ok { // about to be closed
				w.Header().Set("Connection", "close")
			}
			check.answer(w, at.Addr(), s.health.Status(time.Now()).Healthy)
		}),
		ReadTimeout: 5 * time.Second, WriteTimeout: 5 * time.Second, IdleTimeout: time.Minute,
		MaxHeaderBytes: 4 << 10, ConnState: s.crowd.Note,
		ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
}

// lost notes that a server has ended by itself, which Run repairs.
func (s *HealthServers) lost(at netip.AddrPort, srv *http.Server, err error) {
	srv.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running[at] != srv {
		return
	}
	delete(s.running, at)
	s.failed[at] = err.Error()
	s.report()
	s.log.Error("a health check port was lost, will try again", "reason", event.HealthCheckPortFailed, "port", at, "error", err, "retry", s.retry)
}

// report tells the agent's health which ports are missing.
func (s *HealthServers) report() {
	const most = 3
	var why []string
	for _, at := range slices.SortedFunc(maps.Keys(s.failed), netip.AddrPort.Compare) {
		if len(why) == most {
			why = append(why, fmt.Sprintf("and %d more", len(s.failed)-most))
			break
		}
		why = append(why, s.failed[at])
	}
	s.health.Degraded("health check ports", strings.Join(why, "; "))
}
