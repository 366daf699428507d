package manifest

import (
	"fmt"
	"slices"

	"pointsman/state"
)

// digest is an Object with what the Loader has worked out of it, each thing
// once in the object's life.
type digest struct {
	object  *Object
	asked   *asked
	slot    *slot // of the object's own key; nil where the key couldn't be told
	service *slot // of the Service that an EndpointSlice or Endpoints object names

	// What every Load looks at, so that it need not touch the object, which
	// costs a cache miss each.
	kind   byte // S for a Service, E for what has endpoints, N for a Node
	failed bool
	loud   bool // the object has Problems

	sum    uint64 // hash of the document
	hashed bool   // whether sum is set

	parsed   bool      // whether backings are set
	backings []backing // of a slice
	findings []Problem
	orphaned []Problem
	rival    *digest // the object of the same key that is served instead
	rivalry  []Problem
	demand   *demand // of a Service, nil where nothing of it is programmed
}

// slot is all that is known by one Key. Objects are linked to slots when they
// are read, so that a Load looks nothing up by name. A stamp holds the
// generation of the Load that last set the field it stands for.
type slot struct {
	key Key

	seen   uint64  // stamp of digest
	digest *digest // the object that is served by this key

	failed  *Object // the document of this key that failed last
	failing uint64  // stamp of failed

	linked uint64 // stamp of slices
	slices []*digest

	broken uint64 // stamp: it has a slice that's in error

	ordered uint64  // stamp: already among the ordered services
	good    *digest // the last good version

	memo serviceMemo
}

func (l *Loader) slotOf(k Key) *slot {
	s := l.slots[k]
	if s == nil {
		s = &slot{key: k}
		l.slots[k] = s
	}
	return s
}

func (l *Loader) newDigest(o *Object) *digest {
	e := &digest{object: o, asked: l.askedOf(o), failed: o.Failed(), loud: len(o.Problems) > 0}
	if o.Service != nil {
		e.take()
	}
	l.attach(e)
	return e
}

// attach links an object to the slots that it has to do with.
func (l *Loader) attach(e *digest) {
	o := e.object
	if isTold(o.Key) {
		e.slot, e.kind = l.slotOf(o.Key), o.Key.Kind[0]
	}
	if o.backed != "" {
		e.service = l.slotOf(Key{KindService, state.ObjectName{Namespace: o.Key.Namespace, Name: o.backed}})
	}
}

// isTold reports whether a Key, perhaps of a broken document, names an object.
func isTold(k Key) bool {
	_, known := apiVersionOf(k.Kind)
	return known && k.Name != ""
}

// forget drops the slots that no object refers to any more, once they are many.
func (l *Loader) forget() {
	if len(l.slots) < 2*l.crowd+1024 {
		return
	}
	clear(l.slots)
	keep := func(digests []*digest) {
		for _, e := range digests {
			for _, s := range []*slot{e.slot, e.service} {
				if s != nil {
					l.slots[s.key] = s
				}
			}
		}
	}
	for _, r := range l.readings {
		keep(r.digests)
	}
	keep(l.lastGood.objects)
	l.crowd = len(l.slots)
}

// sweep is one Load: which object is served by which key.
type sweep struct {
	*Loader
	effective []*digest
	services  []*slot
	nodes     []*digest
	backends  []*digest // EndpointSlices and Endpoints
	stale     []Key
	problems  []Problem
	failed    []*slot            // keys of failed documents, possibly repeated
	untold    map[string][]doubt // by file
}

// doubt is a document of which it can't be told which object it holds, or
// the lack of any document where there were some. Objects last served from the
// file stay if they may be the one.
type doubt struct {
	key Key     // what could be told: kind, name, both of which isn't one that is read, or nothing
	why Problem // to which the object's name is added
}

func (d doubt) mayBe(k Key) bool {
	_, known := apiVersionOf(d.key.Kind)
	sameName := d.key.Name == k.Name && (k.Namespace == "" || d.key.Namespace == k.Namespace)
	return (!known || d.key.Kind == k.Kind) && (d.key.Name == "" || sameName)
}

// index takes in the documents of one file. Of several good documents with
// one key the first by file and line is served (semantics.md, Conflicts): the
// readings come in that order.
func (p *sweep) index(r *reading) {
	switch at := (state.Source{File: r.file.Path, Line: 1}); {
	case r.file.Fault != "":
		p.problems = append(p.problems, newProblem(ruleFileUnreadable, at, "the file can't be read: %s", r.file.Fault))
		p.doubt(r.file.Path, doubt{why: newProblem(ruleStale, at, "")})
	case len(r.file.Data) == 0:
		p.doubt(r.file.Path, doubt{why: newProblem(ruleFileEmpty, at,
			"the file is empty (remove the file to remove its objects)")})
	}
	for _, e := range r.digests {
		if e.loud {
			p.problems = append(p.problems, e.object.Problems...)
		}
		if e.failed {
			p.problems = append(p.problems, e.findings...)
			if e.service != nil {
				e.service.broken = p.generation
			}
		}
		switch {
		case e.failed && e.slot == nil:
			p.doubt(r.file.Path, doubt{e.object.Key, newProblem(ruleUnidentified, e.object.Source,
				"it can't be told which object this document holds")})
		case e.failed:
			e.slot.failed, e.slot.failing = e.object, p.generation
			p.failed = append(p.failed, e.slot)
		case e.slot.seen == p.generation:
			p.problems = append(p.problems, e.duplicate(e.slot.digest)...)
		default:
			p.serve(e)
		}
	}
}

// duplicate gives the problem of an object whose key another object has.
func (e *digest) duplicate(kept *digest) []Problem {
	if e.rival != kept {
		e.rival, e.rivalry = kept, []Problem{e.object.problem(ruleObjectDuplicate, "metadata.name",
			"Duplicate value: %q: %s is already defined by %s, which stays in force", e.object.Key.Name, e.object.Key, kept.object.Source)}
	}
	return e.rivalry
}

// serve makes e the object that is served by its key.
func (p *sweep) serve(e *digest) {
	e.slot.digest, e.slot.seen = e, p.generation
	p.effective = append(p.effective, e)
	switch e.kind {
	case 'S':
		p.services = append(p.services, e.slot)
	case 'N':
		p.nodes = append(p.nodes, e)
	case 'E':
		p.backends = append(p.backends, e)
		p.link(e)
	}
}

// link adds a slice to the Service it names.
func (p *sweep) link(e *digest) {
	s := e.service
	if s == nil {
		return
	}
	if s.linked != p.generation {
		s.slices, s.linked = s.slices[:0], p.generation
	}
	s.slices = append(s.slices, e)
}

// slicesOf gives the slices of a Service.
func (p *sweep) slicesOf(s *slot) []*digest {
	if s.linked != p.generation {
		return nil
	}
	return s.slices
}

func (e *digest) compare(o *digest) int { return e.object.Key.Compare(o.object.Key) }

// doubt notes that objects last served from a file stay in force unless a good
// document of theirs turns up somewhere: it can't be told whether they were
// removed from it.
func (p *sweep) doubt(path string, d doubt) {
	if p.untold == nil {
		p.untold = map[string][]doubt{}
	}
	p.untold[path] = append(p.untold[path], d)
}

// keepStale lets the last good versions stand in for documents that failed.
// An object that merely is in another file now has been seen by this time.
func (p *sweep) keepStale() {
	if len(p.failed) == 0 && len(p.untold) == 0 {
		return
	}
	p.lastGood.restore(p.Loader)
	for _, s := range p.failed {
		if s.good != nil && s.seen != p.generation {
			p.keep(s.good)
			p.stays(newProblem(ruleStale, s.failed.Source, ""), s.good.object)
		}
	}
	for _, e := range p.lastGood.objects {
		if e.slot.seen == p.generation {
			continue
		}
		for _, d := range p.untold[e.object.Source.File] {
			if d.mayBe(e.object.Key) {
				p.keep(e)
				p.stays(d.why, e.object)
				break
			}
		}
	}
}

// keep serves a last good version.
func (p *sweep) keep(e *digest) {
	p.stale = append(p.stale, e.object.Key)
	p.serve(e)
}

func (p *sweep) stays(why Problem, good *Object) {
	if why.Message != "" {
		why.Message += "; "
	}
	why.Object = good.Key
	why.Message += fmt.Sprintf("the last good version (%s) of %s stays in force", good.Source, good.Key)
	p.problems = append(p.problems, why)
}

// inOrder sorts the slots by name. Nearly all of them were there last time, so
// only the new ones are sorted, then both are merged.
func (l *Loader) inOrder(seen []*slot) []*slot {
	known := make([]*slot, 0, len(seen))
	for _, s := range l.services {
		if s.seen != l.generation {
			l.bear(s.memo.joined, -1)
			s.memo = serviceMemo{}
			continue
		}
		s.ordered = l.generation
		known = append(known, s)
	}
	fresh := slices.DeleteFunc(seen, func(s *slot) bool { return s.ordered == l.generation })
	if len(fresh) == 0 {
		return known
	}
	slices.SortFunc(fresh, bySlotName)
	return merge(known, fresh)
}

func bySlotName(a, b *slot) int { return a.key.ObjectName.Compare(b.key.ObjectName) }

func merge(a, b []*slot) []*slot {
	out := make([]*slot, 0, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		if bySlotName(a[0], b[0]) < 0 {
			out, a = append(out, a[0]), a[1:]
		} else {
			out, b = append(out, b[0]), b[1:]
		}
	}
	return append(append(out, a...), b...)
}
