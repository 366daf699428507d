package manifest

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"
)

// decodeText decodes a file m.yaml with the default Config.
func decodeText(text string) []*Object {
	return Decode(&File{Path: "m.yaml", Data: []byte(text)}, testConfig(""))
}

// problemsOf gives the problems of objects as they are printed.
func problemsOf(objects ...*Object) []string {
	var all []string
	for _, o := range objects {
		for _, p := range o.Problems {
			all = append(all, p.String())
		}
	}
	return all
}

func wantProblems(t *testing.T, objects []*Object, want ...string) {
	t.Helper()
	if got := problemsOf(objects...); !slices.Equal(got, want) {
		t.Errorf("\n got %q\nwant %q", got, want)
	}
}

// keysOf gives the objects' keys and lines, and a ! where one failed.
func keysOf(objects []*Object) []string {
	var all []string
	for _, o := range objects {
		s := fmt.Sprintf("%d: %s", o.Source.Line, o.Key)
		if o.Failed() {
			s = "!" + s
		}
		all = append(all, s)
	}
	return all
}

// The files of testdata/decode have a golden file each: what they are
// decoded to, defaulted.
func TestDecodeGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/decode/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range files {
		if strings.HasSuffix(path, ".golden") {
			continue
		}
		t.Run(filepath.Base(path), func(t *testing.T) {
			f := &File{Path: filepath.Base(path), Data: []byte(readText(t, path))}
			got := dump(t, Decode(f, testConfig("")))
			golden := path + ".golden"
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if want := readText(t, golden); got != want {
				t.Errorf("%s differs:\n%s", golden, got)
			}
		})
	}
}

// dump writes objects as YAML documents, with a comment about each.
func dump(t *testing.T, objects []*Object) string {
	t.Helper()
	var b strings.Builder
	for _, o := range objects {
		fmt.Fprintf(&b, "---\n# %s, %s\n", o.Source, o.Key)
		for _, p := range o.Problems {
			fmt.Fprintf(&b, "# %s (document %d)\n", p, p.Document)
		}
		if o.Failed() {
			continue
		}
		text, err := yaml.Marshal(typed(o))
		if err != nil {
			t.Fatal(err)
		}
		b.Write(text)
	}
	return b.String()
}

// typed gives the field of an object that is set, and nil if there is not
// exactly one.
func typed(o *Object) any {
	var all []any
	if o.Service != nil {
		all = append(all, o.Service)
	}
	if o.EndpointSlice != nil {
		all = append(all, o.EndpointSlice)
	}
	if o.Endpoints != nil {
		all = append(all, o.Endpoints)
	}
	if o.Node != nil {
		all = append(all, o.Node)
	}
	if len(all) != 1 {
		return nil
	}
	return all[0]
}

// A document that does not parse still tells which object it is, so that the
// last good version of the object can stay.
func TestDecodeBroken(t *testing.T) {
	for _, tt := range []struct{ name, text, key, problem string }{
		{
			"a key without a value",
			"# c\napiVersion: v1\nkind: Service # c\nmetadata:\n  labels:\n    name: x\n  name: \"web\"\n  namespace: 'shop'\nspec:\n  ports\n  type: X\n",
			"!2: Service shop/web", "m.yaml:11: is not YAML: mapping values are not allowed in this context (wrong indentation, or a value with \": \" in it and no quotes?)",
		},
		{
			"a tab",
			"kind: EndpointSlice\nmetadata:\n\tname: web\n",
			"!1: EndpointSlice ", "m.yaml:3: is not YAML: found character that cannot start any token (a tab? YAML is indented with spaces)",
		},
		{
			"CRLF",
			"kind: Service\r\nmetadata:\r\n  name: web\r\nspec: [\r\n",
			"!1: Service default/web", "m.yaml:4: is not YAML: did not find expected node content",
		},
		{"text after the end", "{kind: Service}\n{kind: Service}\n", "!1:  ", "m.yaml:1: there is text after the end of the document: separate documents by a line ---"},
		{"an unknown alias", "kind: Service\nspec: *nobody\n", "!1: Service ", "m.yaml:1: is not YAML: unknown anchor 'nobody' referenced"},
		{"an anchor that holds itself", "kind: Service\nspec: &a [*a]\n", "!1: Service ", "m.yaml:1: is not YAML: anchor 'a' value contains itself"},
		{"another encoding", "kind: Service\nmetadata: {name: \"\xff\"}\n", "!1: Service ", "m.yaml:1: is not UTF-8 text"},
		{"a number that JSON has not", "kind: Service\nspec:\n  ports:\n  - port: -.Inf\n", "!1: Service ", "m.yaml:4: spec.ports[0].port: -.Inf is no number that JSON has: a text needs quotes"},
		{"no number at all", "kind: Service\nspec: {a: &a .NaN, b: *a}\n", "!1: Service ", "m.yaml:2: spec.a: .NaN is no number that JSON has: a text needs quotes"},
		{"a key that is a list", "kind: Service\n? [a]\n: b\n", "!1: Service ", "m.yaml:1: is not YAML: invalid map key: []interface {}{\"a\"}"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			objects := decodeText(tt.text)
			if got := keysOf(objects); len(got) != 1 || got[0] != tt.key {
				t.Errorf("got %q, want %q", got, tt.key)
			}
			wantProblems(t, objects, tt.problem)
		})
	}
}

// Documents that would take the host's memory or time are refused, or read
// in no time.
func TestDecodeBounds(t *testing.T) {
	const head = "apiVersion: v1\nkind: Service\nmetadata:\n  name: web\n"
	bomb := head + "  a: &a0 [x,x,x,x,x,x,x,x,x,x]\n"
	deep := head + "  a: &a0 [x]\n"
	for i := range 2000 {
		if i < 9 {
			bomb += fmt.Sprintf("  b%d: &a%d [%s*a%d]\n", i, i+1, strings.Repeat(fmt.Sprintf("*a%d,", i), 9), i)
		}
		deep += fmt.Sprintf("  b%d: &a%d [*a%d]\n", i, i+1, i)
	}
	long := "&l " + strings.Repeat("x", 1<<20)
	for _, tt := range []struct{ name, text, want string }{
		{"aliases of aliases", bomb, "YAML aliases multiply"},
		{"aliases of a long text", head + "  a: " + long + "\n  b: [" + strings.Repeat("*l,", 100) + "]\n", "YAML aliases multiply"},
		{"aliases of great depth", deep, "YAML aliases multiply"},
		{"nested lists", head + "  a: " + strings.Repeat("[", 20000) + "\n", "exceeded max depth"},
		{"nested objects", head + "  a: " + strings.Repeat("{a: ", 20000) + "\n", "exceeded max depth"},
		{"nested lists, closed", head + "  a: " + strings.Repeat("[", 9000) + strings.Repeat("]", 9000) + "\n", `unknown field "metadata.a"`},
		{"nested JSON", `{"a": ` + strings.Repeat("[", 1e5) + strings.Repeat("]", 1e5) + "}", "exceeded max depth"},
		{"a large object", head + strings.Repeat("# comment\n", maxObject/10), "must not be longer than 3145728"},
		{"a large object in a List", "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Service, metadata: {annotations: {a: " + strings.Repeat("<", maxObject/6) + "}}}\n", "as JSON: must not be longer than 3145728"},
		{"a large List", "apiVersion: v1\nkind: List\nitems: []\n" + strings.Repeat("# comment\n", maxDocument/10), "must not be longer than 16777216"},
		{"very many leading zeros", head + "  a: [" + strings.Repeat("00, ", 100_000) + "]\n", `unknown field "metadata.a"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			objects := decodeText(tt.text)
			if len(objects) != 1 || !objects[0].Failed() || !strings.Contains(objects[0].Problems[0].Message, tt.want) {
				t.Errorf("got %q, want %q", problemsOf(objects...), tt.want)
			}
		})
	}
}

// A quantity of very many digits, which would take minutes, is not read: nothing
// of a Node's status is, but for its addresses.
func TestDecodeNodeQuantities(t *testing.T) {
	objects := decodeText("apiVersion: v1\nkind: Node\nmetadata: {name: n1}\nstatus:\n  addresses: [{type: InternalIP, address: 10.0.0.1}]\n" +
		"  capacity: {cpu: much, memory: '" + strings.Repeat("9", 1<<20) + "'}\n  allocatable: {cpu: 8}\n")
	wantProblems(t, objects)
	if n := objects[0].Node; n == nil || n.Name != "n1" || len(n.Status.Addresses) != 1 {
		t.Errorf("%+v", n)
	}
}

// Anchors that do not multiply are as good as what they stand for.
func TestDecodeAliases(t *testing.T) {
	objects := decodeText(`apiVersion: v1
kind: Service
metadata: {name: web, labels: &l {app: web}, annotations: *l}
spec:
  clusterIP: 10.96.0.5
  ports:
  - &p {name: a, port: 80}
  - {<<: *p, protocol: UDP, targetPort: 81}
`)
	wantProblems(t, objects, `m.yaml:8: spec.ports[1].name: Duplicate value: "a"`)
}

// A document with very many problems reports some of them, errors first.
func TestDecodeManyProblems(t *testing.T) {
	text := "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {name: web}\naddressType: IPv4\nendpoints:\n"
	const loopback = "Invalid value: \"127.0.0.1\": may not be in the loopback range (127.0.0.0/8, ::1/128)"
	for n, last := range map[int]string{ // beside two warnings
		maxFindings - 1: "m.yaml:104: endpoints[98].addresses[0]: " + loopback, maxFindings: "m.yaml:1: warning: and 2 more problems", 500: "m.yaml:1: warning: and 402 more problems",
	} {
		got := problemsOf(decodeText(text + strings.Repeat("- addresses: [127.0.0.1]\n", n))...)
		if len(got) != maxFindings+1 || n >= maxFindings && got[0] != "m.yaml:6: endpoints[0].addresses[0]: "+loopback || got[maxFindings] != last {
			t.Errorf("%d problems of %d: %q ... %q", len(got), n, got[0], got[len(got)-1])
		}
	}
}

const threeServices = `apiVersion: v1
kind: Service
metadata: {name: a}
spec: {clusterIP: 10.96.0.1, ports: [{port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: b}
spec: {clusterIP: 10.96.0.300, ports: [{port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: c}
spec: {clusterIP: 10.96.0.3, ports: [{port: 80}]}
`

// redecode decodes a file of which an earlier decode made some objects.
func redecode(f *File, cfg Config, before []*Object) []*Object {
	return DecodeFiles([]*File{f}, cfg, func(*File) []*Object { return before })[0]
}

// A change decodes only the documents whose bytes changed: the others keep
// their pointers, or their content where they moved.
func TestRedecode(t *testing.T) {
	cfg := testConfig("")
	before := decodeText(threeServices)
	redecode := func(path, text string) []*Object {
		return redecode(&File{Path: path, Data: []byte(text)}, cfg, before)
	}
	t.Run("nothing changed", func(t *testing.T) {
		if after := redecode("m.yaml", threeServices); !slices.Equal(after, before) {
			t.Error("decoded again")
		}
	})
	t.Run("one changed", func(t *testing.T) {
		after := redecode("m.yaml", strings.Replace(threeServices, "10.96.0.300", "10.96.0.2", 1))
		if after[0] != before[0] || after[1] == before[1] || after[2] != before[2] {
			t.Error("not exactly the second was decoded again")
		}
		if after[1].Failed() {
			t.Error(problemsOf(after[1]))
		}
	})
	t.Run("all moved down", func(t *testing.T) {
		after := redecode("m.yaml", "apiVersion: v1\nkind: Node\nmetadata: {name: n1}\n---\n"+threeServices)
		if got, want := keysOf(after), []string{"1: Node n1", "5: Service default/a", "!10: Service default/b", "15: Service default/c"}; !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		if after[1].Service != before[0].Service {
			t.Error("decoded again")
		}
		if p := after[2].Problems[0]; p.Source.Line != 13 || p.Document != 3 || before[1].Problems[0].Source.Line != 9 {
			t.Errorf("%v, document %d", p, p.Document)
		}
	})
	t.Run("another file", func(t *testing.T) {
		after := redecode("new.yaml", threeServices)
		if after[1].Source.File != "new.yaml" || after[1].Problems[0].Source.File != "new.yaml" || after[0].Service != before[0].Service {
			t.Errorf("%v: %q", after[1].Source, problemsOf(after[1]))
		}
	})
	t.Run("one in two", func(t *testing.T) {
		second := strings.Split(threeServices, "---\n")[1]
		after := redecode("m.yaml", second+"---\n"+second)
		if got, want := keysOf(after), []string{"!1: Service default/b", "!6: Service default/b"}; !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

// The items of a List are one document, and are used again together.
func TestRedecodeList(t *testing.T) {
	text := "apiVersion: v1\nkind: List\nitems:\n" +
		"- {apiVersion: v1, kind: Node, metadata: {name: n1}, status: {addresses: [{type: InternalIP, address: 10.0.0.1}]}}\n" +
		"- {apiVersion: v1, kind: Node, metadata: {name: n2}, status: {addresses: [{type: InternalIP, address: 10.0.0.x}]}}\n"
	before := decodeText(text + "---\n" + threeServices)
	after := redecode(&File{Path: "m.yaml", Data: []byte("# c\n" + text + "---\n" + threeServices)}, testConfig(""), before)
	if got, want := keysOf(after), []string{
		"5: Node n1", "!6: Node n2", "8: Service default/a", "!13: Service default/b", "18: Service default/c",
	}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	for i := range after {
		if typed(after[i]) != typed(before[i]) {
			t.Errorf("object %d was decoded again", i)
		}
	}
}

// The files' results stand at the files' places, whoever decodes them.
func TestDecodeFiles(t *testing.T) {
	var files []*File
	for i := range 20 {
		files = append(files, &File{Path: fmt.Sprintf("%d.yaml", i), Data: bytes.Repeat([]byte(threeServices+"---\n"), i)})
	}
	for i, objects := range DecodeFiles(files, testConfig(""), nil) {
		if len(objects) != 3*i {
			t.Errorf("file %d has %d objects", i, len(objects))
		}
		for j, o := range objects {
			if o.Source.File != files[i].Path || o.Key.Name != string('a'+rune(j%3)) {
				t.Errorf("file %d, object %d: %s, %s", i, j, o.Source, o.Key)
			}
		}
	}
}

// What a document means does not depend on the file it stands in, nor on its
// place there.
func TestDecodeIsIndependentOfPlace(t *testing.T) {
	docs := slices.Concat(corpus(t), []string{"", "# nothing\n", "{", "- a\n"})
	rapid.Check(t, func(t *rapid.T) {
		var files []*File
		var want []string
		for i := range rapid.IntRange(1, 3).Draw(t, "files") {
			var b strings.Builder
			for range rapid.IntRange(0, 4).Draw(t, "documents") {
				doc := rapid.SampledFrom(docs).Draw(t, "document")
				b.WriteString(doc + "\n---\n")
				want = append(want, meanings(decodeText(doc))...)
			}
			files = append(files, &File{Path: fmt.Sprint(i), Data: []byte(b.String())})
		}
		got := meanings(slices.Concat(DecodeFiles(files, testConfig(""), nil)...))
		if !slices.Equal(got, want) {
			t.Fatalf("\n got %q\nwant %q", got, want)
		}
	})
}

// meanings gives what objects mean, wherever they stand.
func meanings(objects []*Object) []string {
	var all []string
	for _, o := range objects {
		s := o.Key.String()
		for _, p := range o.Problems {
			s += fmt.Sprintf("|%d %d %s: %s", p.Severity, p.Source.Line-o.Source.Line, p.Field, p.Message)
		}
		if text, err := yaml.Marshal(typed(o)); err == nil {
			s += string(text)
		}
		all = append(all, s)
	}
	return all
}

// corpus gives the documents of all of testdata.
func corpus(t interface{ Fatal(...any) }) []string {
	files, err := filepath.Glob("testdata/*/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	var docs []string
	for _, path := range files {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range split(data) {
			docs = append(docs, string(d.text))
		}
	}
	return docs
}
