package reconcile

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// Outside names somebody that the agent waits for, and who may never answer.
type Outside string

// Who may keep the agent waiting.
const (
	Nftables      Outside = "nftables"  // nft and the kernel; a change waits
	ManifestFiles Outside = "manifests" // the file system that they are on
)

// silence is how long an answer may take: as long as kube-proxy's /healthz lets a
// change wait, two of its sync periods. Each transaction that is over is an
// answer, so a change that takes minutes is none that waits. The largest one
// (50,000 elements) takes a second, and 16 s on a machine with 30 at work on two
// processors.
const silence = time.Minute

// Waits notes that something was asked of somebody outside, or that there was an
// answer and there's more to come; the zero time, that it's over.
func (h *Health) Waits(whom Outside, since time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.waits == nil {
		h.waits = map[Outside]time.Time{}
	}
	if h.waits[whom] = since; since.IsZero() {
		delete(h.waits, whom)
	}
}

// silent tells who hasn't answered for too long. The text is the same as long as
// that lasts.
func (h *Health) silent(now time.Time) map[Outside]string {
	texts := map[Outside]string{
		Nftables:      "nftables: a change waits: nft and the kernel haven't answered since %s",
		ManifestFiles: "manifests: the file system has not let them be read since %s; what was read before is served",
	}
	all := map[Outside]string{}
	for whom, since := range h.waits {
		if now.Sub(since) >= silence {
			all[whom] = fmt.Sprintf(texts[whom], since.UTC().Format(time.RFC3339))
		}
	}
	return all
}

// addSilent adds to a status who doesn't answer. Without nft the kernel isn't as
// it should be; without new manifests it is.
func (h *Health) addSilent(s *HealthStatus, now time.Time) {
	silent := h.silent(now)
	s.Healthy = s.Healthy && silent[Nftables] == ""
	for _, whom := range slices.Sorted(maps.Keys(silent)) {
		s.Degraded = append(s.Degraded, silent[whom])
	}
}
