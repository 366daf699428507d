package manifest

import (
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"pointsman/state"
)

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

// Two hosts that hold the same last good versions come to the same, one
// through its memory, the other through the file, which has the items of a
// List as documents.
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
		for what, results := range map[string][2]*Result{
			"after a restart": {NewLoader(ranges, file).Load(next), l.Load(next)},
			"restored":        {NewLoader(ranges, file).Restore(), l.Restore()},
		} {
			if got, want := withoutPlaces(results[0]), withoutPlaces(results[1]); got != want {
				t.Errorf("%s: got\n%s\nwant\n%s", what, got, want)
			}
		}
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
