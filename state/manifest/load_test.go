package manifest

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"pointsman/state"
)

// world draws documents: few names, and addresses and ports out of so many,
// so that they often clash or hardly ever; now and then one is in error or
// doesn't parse.
type world struct {
	t     *rapid.T
	width int
}

func newWorld(t *rapid.T) world {
	return world{t, rapid.SampledFrom([]int{2, 200}).Draw(t, "width")}
}

func (w world) pick(of ...string) string { return rapid.SampledFrom(of).Draw(w.t, "pick") }

// some gives prefix and a number.
func (w world) some(prefix string, first int) string {
	return prefix + strconv.Itoa(first+rapid.IntRange(0, w.width).Draw(w.t, prefix))
}

func (w world) document() string {
	ns, name := w.pick("a", "b"), w.pick("x", "y", "z")
	switch w.pick("Service", "Service", "Service", "EndpointSlice", "EndpointSlice", "Endpoints", "Node", "bad") {
	case "Service":
		return w.service(ns, name)
	case "EndpointSlice":
		return fmt.Sprintf(`{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {namespace: %s, name: %s-%s, labels: {kubernetes.io/service-name: %s}},
addressType: IPv4, ports: [{name: %s, port: %s}], endpoints: [%s, %s]}`, ns, name, w.pick("1", "2"), name,
			w.pick("p", "q"), w.pick("80", "81"), w.endpoint(), w.endpoint())
	case "Endpoints":
		return fmt.Sprintf(`{apiVersion: v1, kind: Endpoints, metadata: {namespace: %s, name: %s}, subsets: [{addresses: [{ip: %s}], ports: [{name: p, port: 80}]}]}`,
			ns, name, w.some("10.0.0.", 1))
	case "Node":
		return fmt.Sprintf(`{apiVersion: v1, kind: Node, metadata: {name: %s}, status: {addresses: [{type: InternalIP, address: %s}]}}`,
			w.pick("n1", "n2"), w.some("10.0.0.", 1))
	}
	return w.pick("{", "kind: Deployment\nmetadata: {name: x}", fmt.Sprintf("apiVersion: v1\nkind: Service\nmetadata:\n  namespace: %s\n  name: %s\nspec: {ports: 1}", ns, name))
}

func (w world) service(ns, name string) string {
	spec := []string{"clusterIP: " + w.some("10.96.0.", 1)}
	if w.pick("yes", "no") == "yes" {
		spec = append(spec, fmt.Sprintf("externalIPs: [%s]", w.pick(w.some("10.96.0.", 1), w.some("192.0.2.", 1))))
	}
	switch port := w.pick("80", "81"); w.pick("ClusterIP", "NodePort", "LoadBalancer") {
	case "NodePort":
		spec = append(spec, "type: NodePort", fmt.Sprintf("ports: [{name: p, port: %s, nodePort: %s}]", port, w.some("", 30000)))
	case "LoadBalancer":
		spec = append(spec, "type: LoadBalancer", "externalTrafficPolicy: Local", "loadBalancerIP: "+w.some("192.0.2.", 1),
			"healthCheckNodePort: "+w.some("", 30001), fmt.Sprintf("ports: [{name: p, port: %s}]", port))
	default:
		spec = append(spec, fmt.Sprintf("ports: [{name: p, port: %s}, {name: q, port: 90}]", port))
	}
	return fmt.Sprintf("{apiVersion: v1, kind: Service, metadata: {namespace: %s, name: %s}, spec: {%s}}", ns, name, strings.Join(spec, ", "))
}

func (w world) endpoint() string {
	return fmt.Sprintf("{addresses: [%s], nodeName: %s, conditions: {ready: %s, terminating: %s}}",
		w.pick(w.some("10.0.0.", 1), w.some("10.96.0.", 1), w.some("192.0.2.", 1)), w.pick("n1", "n2"), w.pick("true", "false"), w.pick("true", "false"))
}

// tree draws a few files with a few documents each.
func (w world) tree() map[string]string {
	files := map[string]string{}
	for i := range rapid.IntRange(0, 5).Draw(w.t, "files") {
		var docs []string
		for range rapid.IntRange(0, 3).Draw(w.t, "documents") {
			docs = append(docs, w.document())
		}
		files[fmt.Sprintf("%d.yaml", i)] = strings.Join(docs, "\n---\n")
	}
	return files
}

// edit draws a tree that differs from another in one file.
func (w world) edit(files map[string]string) map[string]string {
	files = maps.Clone(files)
	files[fmt.Sprintf("%d.yaml", rapid.IntRange(0, 5).Draw(w.t, "file"))] = w.document()
	return files
}

// A host that has seen other trees before comes to what a host that starts
// comes to, as long as no document asks for a last good version; and Services
// that say the same are the same pointers.
func TestLoadForgetsThePast(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l, w := NewLoader(ranges, ""), newWorld(t)
		var before *Result
		files := w.tree()
		for range rapid.IntRange(1, 5).Draw(t, "trees") {
			if files = w.edit(files); rapid.IntRange(0, 9).Draw(t, "upheaval") == 0 {
				files = w.tree()
			}
			r, fresh := l.Load(snapshotOf(files)), loadFresh(files)
			if len(r.Stale) > 0 {
				t.Fatalf("stale without an accepted Result: %v", r.Stale)
			}
			compareResults(t, "after other trees", r, fresh)
			expectSamePointers(t, before, r)
			before = r
		}
	})
}

func expectSamePointers(t *rapid.T, before, now *Result) {
	if before == nil {
		return
	}
	for _, old := range before.Services {
		for _, s := range now.Services {
			if reflect.DeepEqual(old, s) && old != s {
				t.Errorf("%s says the same and is another pointer", s)
			}
		}
	}
}

// Which file an object stands in decides only between objects of one name,
// and the order in which files are listed decides nothing.
func TestLoadIgnoresSplitAndOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var docs []string
		seen := map[string]bool{}
		w := newWorld(t)
		for range rapid.IntRange(1, 10).Draw(t, "documents") {
			doc := w.document()
			objects := Decode(&File{Path: "x.yaml", Data: []byte(doc)}, ranges)
			if key := objects[0].Key.String(); !objects[0].Failed() && !seen[key] {
				seen[key] = true
				docs = append(docs, doc)
			}
		}
		want := withoutPlaces(loadFresh(map[string]string{"all.yaml": strings.Join(docs, "\n---\n")}))
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		rng.Shuffle(len(docs), func(i, k int) { docs[i], docs[k] = docs[k], docs[i] })
		files := map[string]string{}
		for _, doc := range docs {
			files[fmt.Sprintf("%d.yaml", rng.IntN(4))] += doc + "\n---\n"
		}
		s := snapshotOf(files)
		rng.Shuffle(len(s.Files), func(i, k int) { s.Files[i], s.Files[k] = s.Files[k], s.Files[i] })
		if got := withoutPlaces(NewLoader(ranges, "").Load(s)); got != want {
			t.Errorf("split over files: got\n%s\nwant\n%s", got, want)
		}
	})
}

// withoutPlaces renders a Result's Services without file and line.
func withoutPlaces(r *Result) string {
	var b strings.Builder
	for _, s := range r.Services {
		moved := *s
		moved.Source = state.Source{}
		renderService(&b, &moved)
	}
	return b.String()
}

// Two hosts that hold the same last good versions come to the same, one
// through its memory, the other through the file.
func TestLastGoodSurvivesTheProcess(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		file, w := tempFile(t), newWorld(t)
		l := NewLoader(ranges, file)
		for range rapid.IntRange(1, 3).Draw(t, "trees") {
			l.Accept(l.Load(snapshotOf(w.tree())))
		}
		if err := l.LastGood().WriteFile(file); err != nil {
			t.Fatal(err)
		}
		next := snapshotOf(w.tree())
		compareResults(t, "after a restart", NewLoader(ranges, file).Load(next), l.Load(next))
		compareResults(t, "restored", NewLoader(ranges, file).Restore(), l.Restore())
	})
}

// No two Services of a Result have an address, a port of one or a number of
// the pool in common, and every refusal has a reason that still holds.
func TestLoadNeverSharesClaims(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		owners := map[string]string{}
		take := func(what string, s *state.Service) {
			if o, ok := owners[what]; ok && o != s.ObjectName.String() {
				t.Errorf("%s belongs to %s and %s", what, o, s.ObjectName)
			}
			owners[what] = s.ObjectName.String()
		}
		for _, s := range loadFresh(newWorld(t).tree()).Services {
			for _, a := range s.ClusterIPs {
				take("address "+a.String(), s)
			}
			if s.HealthCheckNodePort > 0 {
				take(fmt.Sprint("number ", s.HealthCheckNodePort), s)
			}
			for _, p := range s.Ports {
				for _, f := range p.Frontends {
					if f.Kind == state.NodePort {
						take(fmt.Sprint("number ", f.Port), s)
						continue
					}
					take(fmt.Sprint(f.Address, f.Port, p.Protocol), s)
				}
			}
		}
	})
}

// A Load of what was loaded before is the same Result; a change keeps the
// Services that it doesn't concern.
func TestUnchangedServicesKeepTheirPointers(t *testing.T) {
	files := map[string]string{}
	for i := range 20 {
		f := benchFile(i, 2, 0)
		files[f.Path] = string(f.Data)
	}
	l := NewLoader(Config{}, "")
	s := snapshotOf(files)
	first := l.Load(s)
	for range 2 {
		if again := l.Load(s); again != first {
			t.Error("another Result for the same Snapshot")
		}
		l.Accept(first)
		first = l.Load(s)
	}
	s = &Snapshot{Files: slices.Clone(s.Files)}
	s.Files[3] = benchFile(3, 2, 1)
	second := l.Load(s)
	for i := range first.Services {
		if same := first.Services[i] == second.Services[i]; same != (i != 3) {
			t.Errorf("Service %d is the same pointer: %v", i, same)
		}
	}
}

// A slice that moves to another file leaves its Service as it is.
func TestMovedSliceKeepsThePointer(t *testing.T) {
	service, slice, _ := strings.Cut(string(benchFile(1, 2, 0).Data), "---\n")
	l := NewLoader(Config{}, "")
	first := l.Load(snapshotOf(map[string]string{"a.yaml": service, "b.yaml": slice}))
	second := l.Load(snapshotOf(map[string]string{"a.yaml": service, "c.yaml": "# moved\n" + slice}))
	if first.Services[0] != second.Services[0] {
		t.Error("another pointer")
	}
}

// The memory of what is gone is given up.
func TestLoaderForgetsSlots(t *testing.T) {
	l := NewLoader(Config{}, "")
	for round := range 50 {
		files := map[string]string{}
		for i := range 40 {
			f := benchFile(round*40+i, 1, 0)
			files[f.Path] = string(f.Data)
		}
		l.Accept(l.Load(snapshotOf(files)))
	}
	if n := len(l.slots); n > 1500 {
		t.Errorf("%d slots for 80 objects", n)
	}
}

// equalServices compares fields by hand. Whoever adds one to state.Service,
// state.Port or state.Endpoint learns it here. A Cause is Overlay's alone.
func TestEqualServicesSeesEveryField(t *testing.T) {
	for field, changed := range variants(t, state.Service{}) {
		if field != "Ports" && equalServices(&state.Service{}, &changed) {
			t.Errorf("Service.%s is not compared", field)
		}
	}
	for field, changed := range variants(t, state.Port{}) {
		if equalPorts(state.Port{}, changed) {
			t.Errorf("Port.%s is not compared", field)
		}
	}
	for field, changed := range variants(t, state.Endpoint{}) {
		if field != "Cause" && equalEndpoints(state.Endpoint{}, changed) {
			t.Errorf("Endpoint.%s is not compared", field)
		}
	}
}

// samples are values of the structs that are fields.
var samples = map[reflect.Type]any{
	reflect.TypeFor[state.ObjectName](): state.ObjectName{Name: "x"},
	reflect.TypeFor[state.Source]():     state.Source{Line: 1},
	reflect.TypeFor[netip.AddrPort]():   netip.MustParseAddrPort("10.0.0.1:80"),
	reflect.TypeFor[*state.Check]():     &state.Check{},
	reflect.TypeFor[*state.Cause]():     &state.Cause{},
}

// variants gives, for each field of a struct, the zero struct with that field
// changed.
func variants[T any](t *testing.T, zero T) map[string]T {
	out := map[string]T{}
	typ := reflect.TypeFor[T]()
	for i := range typ.NumField() {
		changed := zero
		v := reflect.ValueOf(&changed).Elem().Field(i)
		switch v.Kind() {
		case reflect.String:
			v.SetString("x")
		case reflect.Bool:
			v.SetBool(true)
		case reflect.Int, reflect.Int64:
			v.SetInt(1)
		case reflect.Uint16:
			v.SetUint(1)
		case reflect.Slice:
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		case reflect.Struct, reflect.Pointer:
			v.Set(reflect.ValueOf(samples[v.Type()]))
		default:
			t.Fatalf("no variant of %s", typ.Field(i).Name)
		}
		out[typ.Field(i).Name] = changed
	}
	return out
}
