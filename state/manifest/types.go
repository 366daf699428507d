// Package manifest reads a directory of Kubernetes manifests and publishes the
// Services they mean. It is the only importer of k8s.io/api, sigs.k8s.io/yaml
// and fsnotify.
//
//	Tree      the files, read only while they hold still     (tree.go, watch.go)
//	Decode    a file's documents as typed objects            (decode.go, defaults.go, validate*.go)
//	Loader    objects joined into Services; last good        (load.go, join.go, claims.go, lastgood.go)
//	Rules     all that may be found wrong                    (rules.go, rulebook.go; RULES.md)
package manifest

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"pointsman/state"
)

// File is one manifest file as it was read. It is immutable: a file that did
// not change between two snapshots is the same *File in both, so work done on
// it can be remembered by pointer.
type File struct {
	Path string // relative to the manifests directory, with slashes
	Data []byte

	// Fault is why the file can't be read, empty where it can. It's a file all
	// the same: what it held before was not removed.
	Fault string
}

// Snapshot is a manifests directory at one moment, read while it held still.
type Snapshot struct {
	Files    []*File // sorted by Path
	Approval *File   // approve.yaml, which is no manifest; nil where there's none
	Commit   string  // that the files are of, as git names it in full; empty where it can't be told

	// Noticed is when the first sign came of the change that this is: a file
	// event, or a poll's finding. It's zero for the first Snapshot, and for one
	// that no Watcher has made.
	Noticed time.Time
}

// NewSnapshot gives the Snapshot of files sorted by Path, of no known commit.
func NewSnapshot(files []*File) *Snapshot {
	s := &Snapshot{Files: files}
	if i := slices.IndexFunc(files, func(f *File) bool { return f.Path == ApprovalFile }); i >= 0 {
		s.Approval, s.Files = files[i], slices.Concat(files[:i], files[i+1:])
	}
	return s
}

// Kind is the kind of an Object.
type Kind string

// The kinds that are read. A List is unrolled into the kinds it holds.
const (
	KindService       Kind = "Service"
	KindEndpointSlice Kind = "EndpointSlice"
	KindEndpoints     Kind = "Endpoints"
	KindNode          Kind = "Node"
)

// Key names an object. Node objects have no namespace.
type Key struct {
	Kind Kind
	state.ObjectName
}

// String gives kind namespace/name.
func (k Key) String() string {
	if k.Namespace == "" {
		return string(k.Kind) + " " + k.Name
	}
	return string(k.Kind) + " " + k.ObjectName.String()
}

// Compare orders keys by kind, namespace and name.
func (k Key) Compare(o Key) int {
	return cmp.Or(cmp.Compare(k.Kind, o.Kind), k.ObjectName.Compare(o.ObjectName))
}

// Object is one decoded and defaulted document, immutable. Exactly the field
// of its kind is set, and only if the document has no error.
type Object struct {
	Key    Key          // what could be told of it, also where the document is in error
	Source state.Source // the first line of the document (of the item, in a List)
	Raw    []byte       // the document as it stands in the file (the item as JSON, in a List)

	Service       *corev1.Service
	EndpointSlice *discoveryv1.EndpointSlice // Endpoints are mirrored into slices by the join
	//lint:ignore SA1019 legacy manifests carry them
	Endpoints *corev1.Endpoints
	Node      *corev1.Node

	Problems []Problem

	doc    *document // that it was decoded from; the objects of a List share it
	backed string    // the Service of its namespace that it holds endpoints for, also where it's in error
}

// Failed reports whether the document has an error, so that nothing of it may
// be served.
func (o *Object) Failed() bool { return HasErrors(o.Problems) }

// Severity tells an error, which keeps something from being served, from a
// warning.
type Severity int

// The severities.
const (
	Warning Severity = iota
	Error
)

// String gives the severity in lower case.
func (s Severity) String() string {
	if s == Error {
		return "error"
	}
	return "warning"
}

// Problem is one finding about the manifests.
type Problem struct {
	Rule     Rule         // never empty
	Severity Severity     // the rule's
	Source   state.Source // the line of the field itself where it is known, else the document's
	Document int          // the document's number in its file, from 1; 0 where no document is meant
	Object   Key          // zero where it could not be told
	Field    string       // such as spec.ports[0].nodePort; empty where no field is meant
	Message  string       // such as: Invalid value: 70000: must be between 1 and 65535, inclusive
}

// String gives file:line: field: message.
func (p Problem) String() string {
	s := p.Source.String()
	if p.Severity == Warning {
		s += ": warning"
	}
	if p.Field != "" {
		s += ": " + p.Field
	}
	return fmt.Sprintf("%s: %s", s, p.Message)
}

// Compare orders problems by file, line, field, message and rule.
func (p Problem) Compare(o Problem) int {
	return cmp.Or(cmp.Compare(p.Source.File, o.Source.File), cmp.Compare(p.Source.Line, o.Source.Line),
		cmp.Compare(p.Field, o.Field), cmp.Compare(p.Message, o.Message), cmp.Compare(p.Rule, o.Rule))
}

// HasErrors reports whether one of the problems is an error.
func HasErrors(ps []Problem) bool {
	for _, p := range ps {
		if p.Severity == Error {
			return true
		}
	}
	return false
}

// Errors gives those of some problems that are errors; the others are warnings.
func Errors(ps []Problem) (errors []Problem) {
	for _, p := range ps {
		if p.Severity == Error {
			errors = append(errors, p)
		}
	}
	return errors
}

// Config is what validation and joining need to know of the configuration.
// The same Config and the same files give the same result on every host.
type Config struct {
	NodePortFirst, NodePortLast uint16         // --node-port-range, both inclusive
	ServiceCIDRs                []netip.Prefix // --service-cidr; may be empty
}

// Node is what a v1/Node manifest says of a host.
type Node struct {
	Name      string
	Labels    map[string]string
	Zone      string       // label topology.kubernetes.io/zone
	Addresses []netip.Addr // status.addresses of type InternalIP
	Source    state.Source
}

// Result is what a Snapshot means.
type Result struct {
	Services []*state.Service // sorted by namespace and name; an unchanged Service keeps its pointer
	Nodes    []Node           // sorted by name
	Problems []Problem        // sorted; one for every finding of every file
	Stale    []Key            // objects of which a last good version is served, sorted
	Approval *Approval        // what approve.yaml says; nil where there's none that can be read

	effective []*digest // the objects that are served: the last good ones, once accepted
}
