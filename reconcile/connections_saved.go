package reconcile

import (
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
	"time"

	"pointsman/state"
)

// savedTotals are Totals on the disk. They hold what the counters showed, so it
// may be as old as the kernel's memory of an idle pair: whoever reads them goes
// on from there, with what was counted while no agent ran.
type savedTotals struct {
	Pairs []savedPair `json:"pairs"`
	Ports []savedPort `json:"ports"`
}

type savedPair struct {
	Protocol state.Protocol `json:"protocol"`
	Frontend netip.AddrPort `json:"frontend"`
	Endpoint netip.AddrPort `json:"endpoint"`
	Count    uint64         `json:"count"`
	Expires  time.Time      `json:"expires"`
}

type savedPort struct {
	Namespace string                    `json:"namespace"`
	Service   string                    `json:"service"`
	Port      string                    `json:"port"`
	Protocol  state.Protocol            `json:"protocol"`
	Total     uint64                    `json:"total"`
	Endpoints map[netip.AddrPort]uint64 `json:"endpoints"`
}

// Save writes what the Totals of the next process begin with.
func (t *Totals) Save(w io.Writer) error {
	saved := savedTotals{Pairs: make([]savedPair, 0, len(t.seen)), Ports: make([]savedPort, 0, len(t.sums))}
	for p, s := range t.seen {
		saved.Pairs = append(saved.Pairs, savedPair{p.Protocol, p.Frontend, p.Endpoint, s.count, s.expires})
	}
	for n, s := range t.sums {
		saved.Ports = append(saved.Ports, savedPort{n.Namespace, n.Name, n.Port, n.Protocol, s.all, s.endpoints})
	}
	return json.NewEncoder(w).Encode(saved)
}

// LoadTotals reads what Save wrote.
func LoadTotals(r io.Reader) (*Totals, error) {
	var saved savedTotals
	if err := json.NewDecoder(r).Decode(&saved); err != nil {
		return nil, fmt.Errorf("totals of connections: %w", err)
	}
	t := NewTotals()
	for _, p := range saved.Pairs {
		t.seen[Pair{p.Protocol, p.Frontend, p.Endpoint}] = &sighting{p.Count, p.Expires}
	}
	for _, p := range saved.Ports {
		s := &sum{all: p.Total, endpoints: p.Endpoints}
		if s.endpoints == nil {
			s.endpoints = map[netip.AddrPort]uint64{}
		}
		t.sums[PortName{state.ObjectName{Namespace: p.Namespace, Name: p.Service}, p.Port, p.Protocol}] = s
	}
	return t, nil
}
