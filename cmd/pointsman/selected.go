package main

import (
	"slices"

	"pointsman/state"
)

// servedBy gives the Services that a node serves: all but those that select
// other nodes (pointsman/node-selector). To this host the others are not there,
// so that another may have their addresses, and they go as if they were
// removed.
func servedBy(services []*state.Service, node string) []*state.Service {
	elsewhere := func(s *state.Service) bool {
		_, here := slices.BinarySearch(s.Nodes, node)
		return s.Nodes != nil && !here
	}
	if !slices.ContainsFunc(services, elsewhere) {
		return services
	}
	return slices.DeleteFunc(slices.Clone(services), elsewhere)
}
