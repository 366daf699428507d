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
}

// Programmed notes that the kernel was right at a time.
func (h *Health) Programmed(now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.updated.IsZero() {
		close(h.firstLocked())
	}
	h.updated, h.failure = now, ""
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
	h.mu.Lock()
	defer h.mu.Unlock()
	h.failure = why
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
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.degraded == nil {
		h.degraded = map[string]string{}
	}
	if why == "" {
		delete(h.degraded, what)
		return
	}
	h.degraded[what] = why
}

// HealthStatus is the body of /healthz.
type HealthStatus struct {
	Healthy     bool      `json:"healthy"` // the kernel is as it should be
	LastUpdated time.Time `json:"lastUpdated,omitzero"`
	CurrentTime time.Time `json:"currentTime"`
	Drained     bool      `json:"drained,omitempty"`  // an operator, or a shutdown, drains this host
	Degraded    []string  `json:"degraded,omitempty"` // each with its reason
}

// Status gives the health at a time.
func (h *Health) Status(now time.Time) HealthStatus {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := HealthStatus{Healthy: h.failure == "" && !h.updated.IsZero(), LastUpdated: h.updated, CurrentTime: now, Drained: h.drained}
	switch {
	case h.failure != "":
		s.Degraded = append(s.Degraded, h.failure)
	case h.updated.IsZero():
		s.Degraded = append(s.Degraded, "nftables: not programmed yet")
	}
	for _, what := range slices.Sorted(maps.Keys(h.degraded)) {
		s.Degraded = append(s.Degraded, what+": "+h.degraded[what])
	}
	return s
}

// ServeHTTP answers /healthz: 200 while the kernel is as it should be and this
// host isn't drained, else 503, with a HealthStatus.
func (h *Health) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	s := h.Status(time.Now())
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if !s.Healthy || s.Drained {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	// An error here means that the client has gone.
	_ = json.NewEncoder(w).Encode(s)
}
