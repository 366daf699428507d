// Package pin writes the clusterIPs, nodePorts and healthCheckNodePorts that
// are missing from manifests into the files: what an API server would allocate
// when a Service is created. Hosts that read one directory must not each
// choose for themselves, so it's done once, and git is the record.
//
//	survey     which Services lack what, and what is in use    (survey.go, lack.go)
//	allocate   a value for each, by a hash of the name         (allocate.go)
//	edit       the bytes that put it into the file             (edit.go, block.go, flow.go, text.go)
//	verify     that the file means what it did, and the values (verify.go)
//	write      one file, whole or not at all                   (write.go)
//
// All but the last are functions of the files' bytes alone.
//
// Files are edited by bytes, at the places that the nodes of a YAML parser
// name. No library that prints a tree again keeps the text: goccy/go-yaml's
// syntax tree (1.19.2) loses CRLF, blanks, blank lines and the layout of JSON;
// go.yaml.in/yaml/v3, and so kyaml which is built on it, indentation too. A
// place that was found wrongly can do no harm: what doesn't decode to the old
// document plus the values is thrown away.
package pin

import (
	"errors"
	"slices"

	"pointsman/state"
	"pointsman/state/manifest"
)

// ErrNoServiceCIDR says that a clusterIP is missing and there's no range to
// take it from.
var ErrNoServiceCIDR = errors.New("no service CIDR is given to take it from")

// Value is one value that is missing from a file.
type Value struct {
	Service state.ObjectName
	Field   string       // such as spec.ports[0].nodePort; items[1].spec.clusterIP in a List
	Text    string       // the value: an address, a list of them joined by commas, or a port
	Missing state.Source // the line of the nearest field that is there
	Written state.Source // the line it stands in once it's written
}

// File is a file with its bytes as they are and as they are to be.
type File struct {
	Path          string // as in the Snapshot
	Before, After []byte
}

// Refusal tells why a Service, or a document that may be one, is left alone.
type Refusal struct {
	Source state.Source
	Text   string
}

// String gives file:line: text.
func (r Refusal) String() string { return r.Source.String() + ": " + r.Text }

// Plan is what is to be written.
type Plan struct {
	Files    []File    // sorted by Path; only those that change
	Values   []Value   // sorted by file, line and field
	Refusals []Refusal // sorted by file and line
}

// New gives the values that the manifests lack, for a Service all of them or
// none. Values that former has and the files have no more were freed just now:
// they go to the Service that had them, or to nobody. former may be nil.
//
// The Plan depends on the files' contents alone. The error is that of a
// configuration with which there's nothing to choose from: it is or wraps
// ErrNoServiceCIDR.
func New(now, former *manifest.Snapshot, cfg manifest.Config) (*Plan, error) {
	s := newSurvey(now, cfg)
	if err := s.checkRanges(cfg); err != nil {
		return nil, err
	}
	a := newAllocator(cfg, s.taken)
	if former != nil {
		a.remember(newSurvey(former, cfg))
	}
	p := &Plan{Refusals: s.refusals}
	for _, svc := range s.services {
		if why := a.fill(svc); why != nil {
			svc.settings = nil
			p.refuse(svc, why)
		}
	}
	for _, f := range s.files {
		p.edit(f, cfg)
	}
	p.sort()
	return p, nil
}

func (p *Plan) refuse(s *service, why error) {
	r := Refusal{Source: s.source(), Text: s.object.Key.String() + ": " + why.Error()}
	if f := (*fault)(nil); errors.As(why, &f) {
		r.Source.Line = s.doc.Line + f.line - 1
	}
	p.Refusals = append(p.Refusals, r)
}

func (p *Plan) sort() {
	slices.SortStableFunc(p.Values, func(a, b Value) int { return compareSources(a.Written, b.Written) })
	slices.SortStableFunc(p.Refusals, func(a, b Refusal) int { return compareSources(a.Source, b.Source) })
}
