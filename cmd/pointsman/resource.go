package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"strings"

	"github.com/urfave/cli/v2"

	"pointsman/state/manifest"
)

// resource is a kind of thing that get shows: the rows R of an answer A.
type resource[A, R any] struct {
	name    string // of many
	path    string
	rows    func(*A) []R
	key     func(*R) string // names a row among the others
	columns []column[R]
	below   func(*A) []string // lines that follow the table

	// news: an answer has only what is new after the one before.
	news bool

	// objects: as JSON and YAML they are Kubernetes objects; named: which are called
	// what they are asked for by.
	objects, named bool
}

// objectList is a List of Kubernetes objects.
type objectList struct {
	APIVersion string            `json:"apiVersion"`
	Kind       string            `json:"kind"`
	Items      []json.RawMessage `json:"items"`
}

// asObjects is how objects are shown: as they are.
func asObjects(name, path string) resource[objectList, json.RawMessage] {
	return resource[objectList, json.RawMessage]{
		name: name, path: path,
		rows: func(l *objectList) []json.RawMessage { return l.Items },
		key: func(o *json.RawMessage) string {
			var head struct {
				Metadata struct{ Namespace, Name string } `json:"metadata"`
			}
			_ = json.Unmarshal(*o, &head)
			return head.Metadata.Namespace + "/" + head.Metadata.Name
		},
	}
}

// view is what is asked for and how it's shown.
type view struct {
	socket   string
	query    url.Values
	format   string
	watch    bool
	headless bool
	bare     bool // one object, asked for by its name, in no List
	out, err io.Writer
}

func viewOf(c *cli.Context) (v view, err error) {
	v = view{socket: c.String("socket"), query: url.Values{}, watch: c.Bool("watch"), headless: c.Bool("no-headers"), out: c.App.Writer, err: c.App.ErrWriter}
	if c.Command.ArgsUsage == "" && c.NArg() > 0 || c.NArg() > 1 {
		return v, usage("get %s: what is %q?", c.Command.Name, c.Args().Get(c.NArg()-1))
	}
	if v.format, err = outputOf(c, getFormats...); err != nil {
		return v, err
	}
	namespace, name := c.String("namespace"), c.Args().First()
	if strings.Contains(namespace, "/") {
		return v, usage("get %s: --namespace: %q is no namespace", c.Command.Name, namespace)
	}
	if before, after, found := strings.Cut(name, "/"); found {
		if namespace != "" && namespace != before {
			return v, usage("get %s: %s is not in the namespace %s", c.Command.Name, name, namespace)
		}
		namespace, name = before, after
	}
	if namespace != "" && c.Bool("all-namespaces") {
		return v, usage("get %s: either a namespace or all of them", c.Command.Name)
	}
	for key, value := range map[string]string{"namespace": namespace, "name": name} {
		if value != "" {
			v.query.Set(key, value)
		}
	}
	return v, nil
}

// asText reports whether a table is to be shown.
func (v *view) asText() bool { return v.format == "text" || v.format == "wide" }

// within names what is asked for, or the namespace, if one is.
func (v *view) within() string {
	n, name := v.query.Get("namespace"), v.query.Get("name")
	if name != "" {
		return " of " + strings.TrimPrefix(n+"/"+name, "/")
	}
	if n != "" {
		return " in the namespace " + n
	}
	return ""
}

func (v *view) path(path string) string { return path + "?" + v.query.Encode() }

func (r resource[A, R]) action(c *cli.Context) error {
	v, err := viewOf(c)
	if err != nil {
		return err
	}
	if r.objects && !v.asText() {
		v.query.Set("form", "objects")
		v.bare = r.named && v.query.Has("name")
		return asObjects(r.name, r.path).show(c.Context, v)
	}
	return r.show(c.Context, v)
}

func (r resource[A, R]) show(ctx context.Context, v view) error {
	if v.watch {
		return r.watch(ctx, v)
	}
	a := new(A)
	if err := ask(ctx, v.socket, v.path(r.path), a); err != nil {
		return err
	}
	if !v.asText() {
		return writeAs(v.format, v.out, v.answered(a))
	}
	columns := columnsOf(r.columns, v.format == "wide")
	var lines [][]string
	for _, row := range r.rows(a) {
		lines = append(lines, cells(columns, &row))
	}
	if len(lines) == 0 {
		fmt.Fprintf(v.err, "no %s%s\n", r.name, v.within())
	} else if !v.headless {
		lines = append([][]string{heads(columns)}, lines...)
	}
	err := (&table{w: v.out}).print(lines)
	if r.below != nil && err == nil {
		for _, l := range r.below(a) {
			fmt.Fprintln(v.out, l)
		}
	}
	return err
}

// answered gives what is to be written: an object that is asked for by its name, as
// kubectl does, where only one namespace has it.
func (v *view) answered(a any) any {
	if l, ok := a.(*objectList); ok && v.bare && len(l.Items) == 1 {
		return l.Items[0]
	}
	return a
}

// writeYAML writes the objects one by one: at once, 100,000 endpoints take 1.5 GiB.
func (l *objectList) writeYAML(w io.Writer) error {
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, "apiVersion: %s\nkind: %s\nitems:", l.APIVersion, l.Kind)
	if len(l.Items) == 0 {
		b.WriteString(" []")
	}
	b.WriteByte('\n')
	for _, item := range l.Items {
		text, err := manifest.YAML(item)
		if err != nil {
			return err
		}
		fmt.Fprintf(b, "- %s\n", strings.ReplaceAll(strings.TrimSpace(string(text)), "\n", "\n  "))
	}
	return b.Flush()
}

// writeAs writes a value as json or yaml.
func writeAs(format string, w io.Writer, v any) error {
	if format == "json" {
		return writeJSON(w, v)
	}
	if l, ok := v.(*objectList); ok {
		return l.writeYAML(w)
	}
	text, err := manifest.YAML(v)
	if err != nil {
		return err
	}
	_, err = w.Write(text)
	return err
}
