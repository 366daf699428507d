package main

import (
	"slices"

	"pointsman/state"
)

// servedBy gives the Services that a node serves: all but those that select
// other nodes (pointsman/node-selector). To this host those are not there. Their
// claims stand all the same, for hosts must not differ in who has an address.
func servedBy(services []*state.Service, node string) []*state.Service {
	elsewhere := func(s *state.Service) bool { return !s.ServedBy(node) }
	if !slices.ContainsFunc(services, elsewhere) {
		return services
	}
	return slices.DeleteFunc(slices.Clone(services), elsewhere)
}
