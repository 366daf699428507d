package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"pointsman/state"
)

// supposed is the file of render's --health: what the fleet is supposed to have
// seen.
type supposed struct {
	Down   []string `yaml:"down"`   // ADDR or ADDR:PORT of endpoints that are seen down
	Drains []string `yaml:"drains"` // as drain has them: node NAME, endpoint ADDR[:PORT], service NS/NAME
}

// readSupposed reads such a file into what it means for Services. What it names
// must be there: a mistyped address would show rules as if all were well.
func readSupposed(path string, services []*state.Service) (*state.Health, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var file supposed
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(&file); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: %s (known are down and drains, both lists)", path, yamlText(err))
	}
	if err := noMore(path, d); err != nil {
		return nil, err
	}
	h := &state.Health{Drains: map[state.DrainTarget]*state.Drain{}}
	for i, text := range file.Drains {
		kind, name, _ := strings.Cut(text, " ")
		target, err := drainTarget(kind, strings.TrimSpace(name))
		if err == nil && !slices.ContainsFunc(services, func(s *state.Service) bool { return concerns(target, s) }) {
			err = fmt.Errorf("nothing is %s", target)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: drains[%d]: %w", path, i, err)
		}
		h.Drains[target] = &state.Drain{Target: target}
	}
	down := map[state.CheckKey]*state.Judgement{}
	for i, text := range file.Down {
		judged, err := supposeDown(text, services)
		if err != nil {
			return nil, fmt.Errorf("%s: down[%d]: %w", path, i, err)
		}
		maps.Copy(down, judged)
	}
	h.Verdicts = h.Verdicts.With(down)
	return h, nil
}

// yamlText says on one line, and without Go's types, what is wrong with a text.
func yamlText(err error) string {
	wrong := []string{err.Error()}
	if typed := (*yaml.TypeError)(nil); errors.As(err, &typed) {
		wrong = typed.Errors
	}
	for i, text := range wrong {
		wrong[i], _, _ = strings.Cut(text, " in type ")
	}
	return strings.Join(wrong, "; ")
}

// supposeDown gives the judgements that have an endpoint seen down.
func supposeDown(text string, services []*state.Service) (map[state.CheckKey]*state.Judgement, error) {
	target, err := drainTarget("endpoint", text)
	if err != nil {
		return nil, err
	}
	judged, unasked := map[state.CheckKey]*state.Judgement{}, false
	for _, s := range services {
		for i := range s.Ports {
			for _, e := range s.Ports[i].Endpoints {
				switch {
				case !isAt(e.Address, target.Endpoint):
				case e.Check == nil:
					unasked = true
				default:
					judged[e.Check.Key] = &state.Judgement{Verdict: state.Down}
				}
			}
		}
	}
	switch {
	case len(judged) > 0:
		return judged, nil
	case unasked:
		return nil, fmt.Errorf("%s has neither a probe nor a nodeName: it's never seen down", text)
	}
	return nil, fmt.Errorf("no endpoint is at %s", text)
}

// isAt reports whether an endpoint is the one that is named, or where no port is
// named, is at that address.
func isAt(endpoint, named netip.AddrPort) bool {
	return endpoint == named || named.Port() == 0 && endpoint.Addr() == named.Addr()
}
