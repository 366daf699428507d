package reconcile

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"
)

// Health is what this agent says of itself: whether it can program the
// kernel, and what else is not as it should be. Its zero value is an agent
// that has not programmed the kernel yet.
type Health struct {
	mu       sync.Mutex
	updated  time.Time
	first    chan struct{} // closed at the first programming
	failure  string
	drained  bool
	degraded map[string]string
	waits    map[Outside]time.Time
	loop     *pulse // nil before there is one
	news     func() // nil tells nobody
}

// News has somebody told when Status gives other reasons than before, but for those
// that time alone brings. They must not wait.
func (h *Health) News(tell func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.news = tell
}

// change makes a change, which reports whether it's news.
func (h *Health) change(do func() bool) {
	h.mu.Lock()
	tell := h.news
	isNews := do()
	h.mu.Unlock()
	if isNews && tell != nil {
		tell()
	}
}

// watch has the health follow a loop.
func (h *Health) watch(loop *pulse) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.loop = loop
}

// Programmed notes that the kernel was right at a time.
func (h *Health) Programmed(now time.Time) {
	h.change(func() bool {
		first, failed := h.updated.IsZero(), h.failure != ""
		if first {
			close(h.firstLocked())
		}
		h.updated, h.failure = now, ""
		return first || failed
	})
}

// First is closed when the kernel has been programmed for the first time.
func (h *Health) First() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.firstLocked()
}

func (h *Health) firstLocked() chan struct{} {
	if h.first == nil {
		h.first = make(chan struct{})
	}
	return h.first
}

// Failed notes that the kernel can't be programmed, and why.
func (h *Health) Failed(why string) {
	h.change(func() bool {
		other := h.failure != why
		h.failure = why
		return other
	})
}

// Drained notes whether this host is drained: balancers that ask for its health
// are to leave it alone.
func (h *Health) Drained(drained bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.drained = drained
}

// Degraded notes, or with an empty text takes back, that something keeps the
// agent from doing all it should.
func (h *Health) Degraded(what, why string) {
	h.change(func() bool {
		before := h.degraded[what]
		if h.degraded == nil {
			h.degraded = map[string]string{}
		}
		if h.degraded[what] = why; why == "" {
			delete(h.degraded, what)
		}
		return before != why
	})
}

// HealthStatus is the body of /healthz and /livez.
type HealthStatus struct {
	Healthy     bool      `json:"healthy"`              // the kernel is as it should be
	LastUpdated time.Time `json:"lastUpdated,omitzero"` // when that was last made sure of
	CurrentTime time.Time `json:"currentTime"`
	Drained     bool      `json:"drained,omitempty"`  // an operator, or a shutdown, drains this host
	Degraded    []string  `json:"degraded,omitempty"` // each with its reason
}

// Status gives the health at a time.
func (h *Health) Status(now time.Time) HealthStatus {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.live(now)
	s.Drained = h.drained
	s.Healthy = s.Healthy && h.failure == "" && !h.updated.IsZero()
	if h.failure != "" {
		s.Degraded = append(s.Degraded, h.failure)
	}
	for _, what := range slices.Sorted(maps.Keys(h.degraded)) {
		s.Degraded = append(s.Degraded, what+": "+h.degraded[what])
	}
	h.addSilent(&s, now)
	if h.failure == "" && h.updated.IsZero() { // after what keeps it from being
		s.Degraded = append(s.Degraded, "nftables: not programmed yet")
	}
	return s
}

// Live gives what is left of the health at a time for those who decide whether to
// restart the agent: it's healthy unless the loop is stuck. No restart helps
// where nft fails, where there's nothing to serve, or on a drained host.
func (h *Health) Live(now time.Time) HealthStatus {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.live(now)
}

func (h *Health) live(now time.Time) HealthStatus {
	s := HealthStatus{Healthy: true, LastUpdated: h.updated, CurrentTime: now}
	if why := h.loop.stuck(now); why != "" {
		s.Healthy, s.Degraded = false, []string{why}
	}
	return s
}

// Ready answers /healthz: 200 while the kernel is as it should be and this host
// isn't drained, else 503, with a HealthStatus.
func (h *Health) Ready() http.Handler {
	return answering(func(now time.Time) (HealthStatus, bool) {
		s := h.Status(now)
		return s, s.Healthy && !s.Drained
	})
}

// Alive answers /livez: 200 unless the loop is stuck, else 503, with what Live
// gives.
func (h *Health) Alive() http.Handler {
	return answering(func(now time.Time) (HealthStatus, bool) {
		s := h.Live(now)
		return s, s.Healthy
	})
}

func answering(ask func(now time.Time) (s HealthStatus, well bool)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		s, well := ask(time.Now())
		answer(w, s, well)
	})
}

func answer(w http.ResponseWriter, s HealthStatus, well bool) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if !well {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	// An error here means that the client has gone.
	_ = json.NewEncoder(w).Encode(s)
}
