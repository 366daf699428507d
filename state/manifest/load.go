package manifest

import (
	"cmp"
	"net/netip"
	"slices"

	"pointsman/state"
)

// Loader turns Snapshots into Results. It remembers what it has decoded (by
// *File), joined (by the objects a Service is made of) and settled (by the
// Services that take part), so that a Load costs little more than what
// changed, and so that an unchanged Service keeps its pointer. None of that
// shows in a Result: it is a function of the Snapshot, the Config and the last
// good objects alone, whatever was loaded before, in whatever order and split
// over whatever files (the API server has no say here, so every host must come
// to the same answer by itself).
//
// The last good objects are those of the Result that was last given to Accept,
// and until then those of the last-good file. A Result that is held back
// therefore never becomes what a broken document falls back to.
//
// A Loader belongs to one goroutine; Results and LastGood values may be read
// by any.
type Loader struct {
	cfg      Config
	lastGood lastGoodStore

	generation uint64
	readings   []*reading // of the last Snapshot, by path
	slots      map[Key]*slot
	crowd      int     // how many slots were in use when they were last counted
	services   []*slot // of the last Load, in the order of their names
	settled    *settlement
	bearers    map[netip.Addr]int // how many endpoints have an address
	fleet      *fleet
	probes     map[string]*askedProbe // good readiness-probes, by their texts
	last       *Result
	lastSeen   int // the version of the last good objects that last was made with
	accepted   *Result

	approvalFile *File
	approval     *Approval
	unapproved   []Problem // of the file
}

// NewLoader gives a Loader without a past. lastGoodFile is the file of the
// state directory that holds the last good objects of the process before (see
// LastGood), read only if a Snapshot has a document that failed or if Restore
// is called; it may be empty, or the name of a file that isn't there.
func NewLoader(cfg Config, lastGoodFile string) *Loader {
	return &Loader{cfg: cfg, lastGood: lastGoodStore{file: lastGoodFile}, slots: map[Key]*slot{}, bearers: map[netip.Addr]int{}, probes: map[string]*askedProbe{}}
}

// Load gives what the Snapshot means. It never fails: whatever is wrong with
// one document is among the Problems and concerns that document only.
func (l *Loader) Load(s *Snapshot) *Result {
	changed := l.read(s)
	changed = l.takeApproval(s.Approval) || changed
	if !changed && l.last != nil && l.lastSeen == l.lastGood.version {
		return l.last
	}
	p := l.newSweep()
	for _, r := range l.readings {
		p.index(r)
	}
	p.keepStale()
	return l.conclude(p)
}

// Restore gives what the last good objects alone mean, for a host that starts
// while its manifests directory is missing or empty (semantics.md: that never
// means "delete everything"). Every object of it is stale.
func (l *Loader) Restore() *Result {
	p := l.newSweep()
	l.lastGood.restore(l)
	for _, e := range l.lastGood.objects {
		p.keep(e)
	}
	r := l.conclude(p)
	r.Approval = nil // of this there can be none
	l.last = nil     // so that the next Load looks at its Snapshot, even an empty one
	return r
}

// Accept makes the objects of r, a Result of this Loader, the last good ones:
// call it once r is what this host serves. It may be an older one than the
// last, should it have been held back for a while.
func (l *Loader) Accept(r *Result) {
	if r != l.last {
		for _, e := range r.effective {
			l.attach(e)
		}
	}
	l.accepted = r
	l.lastGood.accept(r.effective)
}

// Last gives the Result that was last accepted, nil if none was: what stays in
// force while the manifests directory is missing.
func (l *Loader) Last() *Result { return l.accepted }

// LastGood gives the last good objects in the form that outlives the process.
func (l *Loader) LastGood() LastGood { return l.lastGood.snapshot() }

func (l *Loader) newSweep() *sweep {
	l.generation++
	p := &sweep{Loader: l}
	if l.last != nil {
		p.effective = make([]*digest, 0, len(l.last.effective)+16)
		p.services = make([]*slot, 0, len(l.services)+16)
		p.backends = make([]*digest, 0, len(l.last.effective)-len(l.services)+16)
	}
	return p
}

// conclude joins what the sweep found and remembers the Result.
func (l *Loader) conclude(p *sweep) *Result {
	l.services = l.inOrder(p.services)
	l.settle(l.services)
	r := &Result{effective: p.effective, Stale: p.stale, Approval: l.approval}
	fleet := p.fleetOf()
	r.Services = make([]*state.Service, 0, len(l.services))
	r.Nodes = fleet.nodes
	for _, s := range l.services {
		if svc := p.join(s, fleet); svc != nil {
			r.Services = append(r.Services, svc)
		}
	}
	l.fleet = fleet
	p.orphans()
	p.problems = append(p.problems, fleet.findings...)
	p.problems = append(p.problems, l.lastGood.problems...)
	p.problems = append(p.problems, l.unapproved...)
	r.Problems = sortProblems(p.problems)
	slices.SortFunc(r.Stale, Key.Compare)
	l.forget()
	l.last, l.lastSeen = r, l.lastGood.version
	return r
}

// reading is a file of the last Snapshot with what it held.
type reading struct {
	file    *File
	objects []*Object
	digests []*digest // one for each of the objects
}

// read brings l.readings up to date with the Snapshot, decoding only files
// that are new or changed, and reports whether there were any or one went.
func (l *Loader) read(s *Snapshot) bool {
	files := s.Files
	if !slices.IsSortedFunc(files, byPath) {
		files = slices.SortedFunc(slices.Values(files), byPath)
	}
	before := l.readings
	next := make([]*reading, len(files))
	var changed []*File
	var at, old = []int(nil), map[*File]*reading{}
	for i, f := range files {
		for len(before) > 0 && before[0].file != f && before[0].file.Path < f.Path {
			before = before[1:]
		}
		if len(before) > 0 && before[0].file == f {
			next[i] = before[0]
			continue
		}
		if len(before) > 0 && before[0].file.Path == f.Path {
			old[f] = before[0]
		}
		changed, at = append(changed, f), append(at, i)
	}
	l.decode(changed, old, func(n int, r *reading) { next[at[n]] = r })
	same := len(changed) == 0 && len(next) == len(l.readings)
	l.readings = next
	return !same
}

func byPath(a, b *File) int { return cmp.Compare(a.Path, b.Path) }

// decode hands the reading of each of the files to put; old holds the former
// reading of the same path, whose unchanged documents are taken over.
func (l *Loader) decode(files []*File, old map[*File]*reading, put func(int, *reading)) {
	if len(files) == 0 {
		return
	}
	decoded := DecodeFiles(files, l.cfg, func(f *File) []*Object {
		if r := old[f]; r != nil {
			return r.objects
		}
		return nil
	})
	for i, f := range files {
		put(i, l.newReading(f, decoded[i], old[f]))
	}
}

func (l *Loader) newReading(f *File, objects []*Object, old *reading) *reading {
	known := map[*Object]*digest{}
	if old != nil {
		for _, e := range old.digests {
			known[e.object] = e
		}
	}
	r := &reading{file: f, objects: objects, digests: make([]*digest, len(objects))}
	for i, o := range objects {
		if r.digests[i] = known[o]; r.digests[i] == nil {
			r.digests[i] = l.newDigest(o)
		}
	}
	return r
}
