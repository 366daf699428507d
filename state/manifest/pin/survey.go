package pin

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"pointsman/state"
	"pointsman/state/manifest"
)

// file is a manifest file with what was found in it.
type file struct {
	*manifest.File
	docs []*document
}

// document is one document of a file, and the good Services in it.
type document struct {
	manifest.Document
	file     *file
	services []*service
}

// service is a Service without an error, and the values that it gets.
type service struct {
	doc      *document
	item     int // of the document, should it be a List
	object   *manifest.Object
	settings []setting
}

func (s *service) name() state.ObjectName { return s.object.Key.ObjectName }

// source is where the Service starts. The object was decoded from its document
// alone, so its own line counts from there.
func (s *service) source() state.Source {
	return state.Source{File: s.doc.file.Path, Line: s.doc.Line + s.object.Source.Line - 1}
}

// survey is what is known of a directory before anything is chosen.
type survey struct {
	files    []*file
	services []*service // by namespace and name, each name once
	taken    taken
	refusals []Refusal
}

func newSurvey(snapshot *manifest.Snapshot, cfg manifest.Config) *survey {
	s := &survey{taken: newTaken()}
	var alone []*manifest.File // each document as a file, so that it's known what it holds
	var docs []*document
	for _, mf := range snapshot.Files {
		f := &file{File: mf}
		for _, d := range manifest.Documents(mf.Data) {
			f.docs = append(f.docs, &document{Document: d, file: f})
			alone = append(alone, &manifest.File{Path: mf.Path, Data: d.Text})
		}
		s.files, docs = append(s.files, f), append(docs, f.docs...)
	}
	slices.SortFunc(s.files, func(a, b *file) int { return cmp.Compare(a.Path, b.Path) })
	for i, objects := range manifest.DecodeFiles(alone, cfg, nil) {
		s.taken.addDocument(docs[i].Document)
		for item, o := range objects {
			s.add(&service{doc: docs[i], item: item, object: o})
		}
	}
	s.sort()
	return s
}

// add notes an object. One that is in error is left alone, and that is said
// where it's a Service, or could be one.
func (s *survey) add(svc *service) {
	o := svc.object
	if !o.Failed() {
		if o.Service != nil {
			s.services = append(s.services, svc)
		}
		return
	}
	if o.Key.Kind != manifest.KindService && o.Key.Kind != "" {
		return
	}
	for _, p := range o.Problems {
		if p.Severity != manifest.Error {
			continue
		}
		r := Refusal{Source: svc.source(), Text: p.Message}
		r.Source.Line = svc.doc.Line + p.Source.Line - 1
		if p.Field != "" {
			r.Text = p.Field + ": " + p.Message
		}
		s.refusals = append(s.refusals, r)
	}
}

// sort puts the Services in the order in which they get values, and leaves out
// all but the first of a name: only that one is served.
func (s *survey) sort() {
	slices.SortStableFunc(s.services, func(a, b *service) int {
		return cmp.Or(a.name().Compare(b.name()), compareSources(a.source(), b.source()), cmp.Compare(a.doc.Offset, b.doc.Offset), cmp.Compare(a.item, b.item))
	})
	var last *service
	s.services = slices.DeleteFunc(s.services, func(svc *service) bool {
		if last != nil && last.name() == svc.name() {
			s.refusals = append(s.refusals, Refusal{svc.source(), fmt.Sprintf("%s: already defined at %s", svc.object.Key, last.source())})
			return true
		}
		last = svc
		svc.doc.services = append(svc.doc.services, svc)
		return false
	})
}

func compareSources(a, b state.Source) int {
	return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line))
}

// taken is what must not be given to a Service.
type taken struct {
	addresses map[netip.Addr]bool
	ports     map[uint16]bool
}

func newTaken() taken {
	return taken{addresses: map[netip.Addr]bool{}, ports: map[uint16]bool{}}
}

// addDocument takes every address that a document names, in whatever field:
// clusterIPs, externalIPs, endpoints, Nodes' addresses, annotations; and all
// nodePorts. The document may be in error. What isn't even parsed has all its
// numbers taken, comments included, for there may be nodePorts among them.
func (t *taken) addDocument(d manifest.Document) {
	if value, err := read(d); err == nil {
		t.addValue("", value)
		return
	}
	t.addText(string(d.Text))
	for word := range strings.FieldsFuncSeq(string(d.Text), func(c rune) bool { return c < '0' || c > '9' }) {
		t.addPort(word)
	}
}

// addValue takes what a value of JSON names; key is the one it stands at.
func (t *taken) addValue(key string, value any) {
	switch v := value.(type) {
	case map[string]any:
		for k, e := range v {
			t.addValue(k, e)
		}
	case []any:
		for _, e := range v {
			t.addValue(key, e)
		}
	case string:
		t.addText(v)
		if isPortKey(key) {
			t.addPort(v)
		}
	case json.Number:
		if isPortKey(key) {
			t.addPort(v.String())
		}
	}
}

func isPortKey(key string) bool {
	return strings.EqualFold(key, keyNodePort) || strings.EqualFold(key, keyHealthCheck)
}

// addText takes the addresses in a text, such as the list of an annotation.
func (t *taken) addText(text string) {
	if !strings.ContainsAny(text, ".:") {
		return
	}
	for word := range strings.FieldsFuncSeq(text, notInAddress) {
		word = strings.TrimRight(word, ".")
		if a, err := netip.ParseAddr(word); err == nil {
			t.addresses[a.Unmap()] = true
		} else if ap, err := netip.ParseAddrPort(word); err == nil {
			t.addresses[ap.Addr().Unmap()] = true
		}
	}
}

func notInAddress(c rune) bool {
	return (c < '0' || c > '9') && (c < 'a' || c > 'f') && (c < 'A' || c > 'F') && c != '.' && c != ':'
}

func (t *taken) addPort(text string) {
	if n, err := strconv.ParseUint(text, 10, 16); err == nil {
		t.ports[uint16(n)] = true
	}
}
