package pin

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"pointsman/state/manifest"
)

// layout writes Services in a random layout.
type layout struct {
	t   *rapid.T
	eol string
}

func (l *layout) flip(what string) bool { return rapid.Bool().Draw(l.t, what) }

// noise is a comment, a blank line or nothing between two lines.
func (l *layout) noise(indent string) string {
	return rapid.SampledFrom([]string{
		"", "", "", indent + "# ports: [{port: 1}]" + l.eol, l.eol, indent + "  # clusterIP: 10.96.0.200" + l.eol + l.eol,
	}).Draw(l.t, "noise")
}

// tail is what may follow a value on its line.
func (l *layout) tail() string {
	return rapid.SampledFrom([]string{"", "", " ", "  # 'why: {", " #"}).Draw(l.t, "tail")
}

// field is an entry; a value that starts with a line break is written by itself.
type field struct {
	key   string
	value func(indent string, flow bool) string
}

func (l *layout) scalar(key string, values ...string) field {
	text := rapid.SampledFrom(values).Draw(l.t, key)
	bare := []string{"null", "true", "false", "~", "0"}
	if !slices.Contains(bare, text) && !strings.ContainsAny(text, `'"`) && l.flip("quoted") {
		text = `"` + text + `"`
	}
	return field{key, func(string, bool) string { return text }}
}

// mapping writes fields in block style, or in flow style on one or many lines.
func (l *layout) mapping(fields []field, indent string, flow bool) string {
	fields = rapid.Permutation(fields).Draw(l.t, "order")
	if flow || l.flip("flow") {
		return l.flow(fields, indent)
	}
	var b strings.Builder
	b.WriteString(l.tail() + l.eol)
	for _, f := range fields {
		b.WriteString(l.noise(indent) + indent + f.key + ":")
		l.blockValue(&b, f.value(indent+"  ", false))
	}
	return b.String()
}

func (l *layout) blockValue(b *strings.Builder, value string) {
	if end := strings.TrimRight(value, "\r\n"); end != value { // a block of its own
		b.WriteString(value)
		return
	}
	b.WriteString(" " + value + l.tail() + l.eol)
}

func (l *layout) flow(fields []field, indent string) string {
	sep, open, end := ", ", "{", "}"
	if l.flip("lines") {
		sep, open, end = ","+l.eol+indent+"  ", "{"+l.eol+indent+"  ", l.eol+indent+"}"
	}
	var entries []string
	for _, f := range fields {
		key := f.key
		if l.flip("quoted key") {
			key = `"` + key + `"`
		}
		entries = append(entries, key+": "+f.value(indent+"  ", true))
	}
	if l.flip("comma at the end") {
		end = "," + end
	}
	return open + strings.Join(entries, sep) + end
}

// ports writes the list of ports.
func (l *layout) ports(n int) field {
	return field{"ports", func(indent string, flow bool) string {
		inFlow := flow || l.flip("ports in flow")
		var items []string
		for i := range n {
			name, port := fmt.Sprintf("p%d", i), fmt.Sprint(80+i)
			fields := []field{{"name", func(string, bool) string { return name }}, {"port", func(string, bool) string { return port }}}
			if l.flip("protocol") {
				fields = append(fields, l.scalar("protocol", "TCP", "UDP"))
			}
			if l.flip("empty nodePort") {
				fields = append(fields, l.scalar("nodePort", "0", "null", "~"))
			}
			items = append(items, l.flow(fields, indent+"    "))
			if !inFlow && l.flip("item in block") {
				items[i] = l.item(fields, indent)
			}
		}
		if inFlow {
			return "[" + strings.Join(items, ", ") + "]"
		}
		dash := indent
		if l.flip("indentless") {
			dash = strings.TrimSuffix(indent, "  ")
		}
		var b strings.Builder
		b.WriteString(l.tail() + l.eol)
		for _, item := range items {
			b.WriteString(l.noise(dash) + dash + "- " + strings.ReplaceAll(item, l.eol+indent+"  ", l.eol+dash+"  ") + l.tail() + l.eol)
		}
		return b.String()
	}}
}

// item writes a port in block style, all but its last line break.
func (l *layout) item(fields []field, indent string) string {
	var lines []string
	for _, f := range rapid.Permutation(fields).Draw(l.t, "order of the item") {
		lines = append(lines, f.key+": "+f.value("", true))
	}
	return strings.Join(lines, l.tail()+l.eol+indent+"  ")
}

// service writes one Service that lacks values.
func (l *layout) service(i int) string {
	types := []string{"ClusterIP", "NodePort", "LoadBalancer"}
	kind := l.scalar("type", types...)
	spec := []field{l.ports(rapid.IntRange(1, 3).Draw(l.t, "ports")), kind}
	isBalancer := strings.Contains(kind.value("", true), "LoadBalancer")
	if isBalancer && l.flip("local") {
		spec = append(spec, l.scalar("externalTrafficPolicy", "Local"))
	}
	if isBalancer && l.flip("allocate") {
		spec = append(spec, l.scalar("allocateLoadBalancerNodePorts", "true", "false"))
	}
	if l.flip("empty clusterIP") {
		spec = append(spec, l.scalar("clusterIP", `""`, "''", "null", "~"))
	}
	if l.flip("families") {
		spec = append(spec, l.scalar("ipFamilyPolicy", "PreferDualStack", "RequireDualStack", "SingleStack"))
	}
	name := field{"metadata", func(string, bool) string { return fmt.Sprintf("{name: s%d, namespace: n%d}", i, i%2) }}
	all := []field{l.scalar("apiVersion", "v1"), l.scalar("kind", "Service"), name,
		{"spec", func(indent string, flow bool) string { return l.mapping(spec, indent, flow) }}}
	text := strings.TrimPrefix(l.mapping(all, "", false), l.eol)
	if text[0] == ' ' || text[0] == '#' { // the tail of a line that isn't there
		_, text, _ = strings.Cut(text, l.eol)
	}
	return strings.TrimRight(text, "\r\n ") + l.eol
}

func (l *layout) file() string {
	var docs []string
	for i := range rapid.IntRange(1, 3).Draw(l.t, "documents") {
		docs = append(docs, l.noise("")+l.service(i))
	}
	text := strings.Join(docs, rapid.SampledFrom([]string{"---", "--- # next", "..." + l.eol + "# c" + l.eol + "---"}).Draw(l.t, "marker")+l.eol)
	if l.flip("no break at the end") {
		text = strings.TrimSuffix(text, l.eol)
	}
	return rapid.SampledFrom([]string{"", "", "\ufeff"}).Draw(l.t, "bom") + text
}

// Whatever the layout: nothing is refused, the files mean what they did and the
// values, no line is changed that has none of them, a second time changes
// nothing, and what was in error for its missing values is no more.
func TestPinAnyLayout(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := &layout{t: t, eol: rapid.SampledFrom([]string{"\n", "\n", "\r\n"}).Draw(t, "eol")}
		before := l.file()
		file := &manifest.File{Path: "x.yaml", Data: []byte(before)}
		p, err := New(&manifest.Snapshot{Files: []*manifest.File{file}}, nil, ranges)
		if err != nil || len(p.Refusals) > 0 {
			t.Fatalf("%v %v\n%s", err, p.Refusals, before)
		}
		if len(p.Files) != 1 {
			t.Fatalf("nothing was written:\n%s", before)
		}
		after := p.Files[0].After
		checkMeaning(t, file.Data, after, p.Values)
		checkLines(t, before, string(after), p.Values)
		checkPinned(t, after)
	})
}

// checkMeaning compares the documents as JSON.
func checkMeaning(t *rapid.T, before, after []byte, values []Value) {
	had, has := manifest.Documents(before), manifest.Documents(after)
	if len(had) != len(has) {
		t.Fatalf("%d documents, %d before:\n%s", len(has), len(had), after)
	}
	for i := range had {
		was, err := read(had[i])
		is, err2 := read(has[i])
		if err != nil || err2 != nil {
			t.Fatal(err, err2)
		}
		o := manifest.Decode(&manifest.File{Data: had[i].Text}, ranges)[0]
		for _, v := range values {
			if v.Service != o.Key.ObjectName {
				continue
			}
			var value any = v.Text
			switch {
			case strings.HasSuffix(v.Field, "IPs"):
				value = plain(strings.Split(v.Text, ","))
			case strings.HasSuffix(v.Field, "Port"):
				value = json.Number(v.Text)
			}
			was = with(was, strings.FieldsFunc(v.Field, func(c rune) bool { return strings.ContainsRune(".[]", c) }), value)
		}
		if !reflect.DeepEqual(was, is) {
			t.Errorf("\n got %v\nwant %v\n%s", is, was, after)
		}
	}
}

// checkLines: the lines that hold no new value are those that there were, in
// their order; between two of them not more old lines are gone than there are
// lines with new values.
func checkLines(t *rapid.T, before, after string, values []Value) {
	written := map[int]bool{}
	for _, v := range values {
		if v.Missing.Line < 1 || v.Missing.Line > v.Written.Line {
			t.Errorf("%+v has no line", v)
		}
		written[v.Written.Line] = true
	}
	old := lines(before)
	gap := 0
	for i, line := range lines(after) {
		if written[i+1] {
			gap++
			continue
		}
		gone := slices.Index(old, line)
		if gone < 0 || gone > gap {
			t.Fatalf("line %d was changed, to %q:\n%s", i+1, line, after)
		}
		old, gap = old[gone+1:], 0
	}
	if len(old) > 0 {
		t.Errorf("lines are missing: %q", old)
	}
}

// lines gives the lines of a text with their breaks, and what is after the last
// one: nothing. A break that is missing at the end is added.
func lines(text string) []string {
	eol := "\n"
	if strings.Contains(text, "\r\n") {
		eol = "\r\n"
	}
	return strings.SplitAfter(strings.TrimSuffix(text, eol)+eol, "\n")
}

// checkPinned: nothing is missing any more.
func checkPinned(t *rapid.T, data []byte) {
	s := &manifest.Snapshot{Files: []*manifest.File{{Path: "x.yaml", Data: data}}}
	again, err := New(s, nil, ranges)
	if err != nil || len(again.Files)+len(again.Values)+len(again.Refusals) > 0 {
		t.Errorf("again: %v %+v", err, again)
	}
	for _, problem := range manifest.NewLoader(ranges, "").Load(s).Problems {
		if problem.Severity == manifest.Error || bytes.Contains([]byte(problem.Message), []byte("pointsman pin")) {
			t.Errorf("%s\n%s", problem, data)
		}
	}
}
