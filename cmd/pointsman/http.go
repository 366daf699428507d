package main

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"pointsman/reconcile"
	"pointsman/state/event"
)

// server is an HTTP server that tries to listen until it can: an address in
// use must not keep the kernel from being programmed.
type server struct {
	name, addr string
	open       func(ctx context.Context, addr string) (net.Listener, error)
	handler    http.Handler
	log        *slog.Logger
	health     *reconcile.Health
}

const listenAgain = 5 * time.Second

// exchangeTimeout bounds a request with its answer, which those who never read
// would make last for ever. It's longer than anybody is made to wait (maxWait).
const exchangeTimeout = time.Minute

// run serves until ctx ends. An empty address serves nothing.
func (s *server) run(ctx context.Context) error {
	if s.addr == "" {
		return nil
	}
	srv := &http.Server{
		Handler: s.handler, MaxHeaderBytes: 16 << 10, ConnContext: withPeer, ConnState: reconcile.NewCrowd(reconcile.MaxConnections).Note,
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ReadHeaderTimeout: 5 * time.Second, ReadTimeout: exchangeTimeout, WriteTimeout: exchangeTimeout, IdleTimeout: time.Minute,
		ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelWarn),
	}
	stop := context.AfterFunc(ctx, func() { srv.Close() })
	defer stop()
	for {
		listener := s.listen(ctx)
		if listener == nil {
			return nil
		}
		go guard(ctx, listener)
		err := srv.Serve(listener)
		if ctx.Err() != nil {
			return nil
		}
		if errors.Is(err, net.ErrClosed) {
			err = errors.New("the socket's file was removed or replaced") // see guard
		}
		s.log.Error("nobody can connect any more, will listen again", "reason", event.ListenFailed, "server", s.name, "error", err)
		waitFor(ctx, time.After(guardPeriod))
	}
}

// guardPeriod is how often it's seen to that a socket's file is there.
const guardPeriod = time.Second

// guard closes a socket whose file was removed or replaced: nobody would find it.
// It leaves what is there by then.
func guard(ctx context.Context, listener net.Listener) {
	l, ok := listener.(*net.UnixListener)
	if !ok {
		return
	}
	path := l.Addr().String()
	was, _ := os.Lstat(path)
	for waitFor(ctx, time.After(guardPeriod)) {
		now, err := os.Lstat(path)
		if err == nil && !os.SameFile(was, now) || errors.Is(err, fs.ErrNotExist) {
			l.SetUnlinkOnClose(false)
			l.Close()
			return
		}
	}
}

// listen gives a listener, or nil when ctx ends first.
func (s *server) listen(ctx context.Context) net.Listener {
	for {
		listener, err := s.open(ctx, s.addr)
		if err == nil {
			s.health.Degraded(s.name, "")
			return listener
		}
		if ctx.Err() != nil {
			return nil
		}
		s.health.Degraded(s.name, err.Error())
		s.log.Error("can't listen, will try again", "reason", event.ListenFailed, "server", s.name, "error", err, "retry", listenAgain)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(listenAgain):
		}
	}
}

func listenTCP(ctx context.Context, addr string) (net.Listener, error) {
	return (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
}

// healthHandler answers /healthz and /livez, and counts the answers.
func healthHandler(health *reconcile.Health, r prometheus.Registerer) http.Handler {
	mux := http.NewServeMux()
	for path, answer := range map[string]http.Handler{"healthz": health.Ready(), "livez": health.Alive()} {
		answers := prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pointsman_proxy_" + path + "_total", Help: "Answers of /" + path + ", by HTTP status.",
		}, []string{"code"})
		r.MustRegister(answers)
		mux.Handle("/"+path, promhttp.InstrumentHandlerCounter(answers, answer))
	}
	return mux
}
