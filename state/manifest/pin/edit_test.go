package pin

import (
	"strings"
	"testing"

	"pointsman/state/manifest"
)

// pinOne pins one file.
func pinOne(t testing.TB, path, data string) *Plan {
	t.Helper()
	p, err := New(&manifest.Snapshot{Files: []*manifest.File{{Path: path, Data: []byte(data)}}}, nil, ranges)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestBytes: what a golden file can't show. IP and PORT in want stand for
// what was chosen.
func TestBytes(t *testing.T) {
	const head = "apiVersion: v1\nkind: Service\nmetadata: {name: x}\n"
	for _, tt := range []struct{ name, text, want string }{
		{"CRLF", "spec:\r\n  type: NodePort\r\n  ports:\r\n  - port: 80\r\n",
			"spec:\r\n  type: NodePort\r\n  clusterIP: IP\r\n  ports:\r\n  - port: 80\r\n    nodePort: PORT\r\n"},
		{"CR alone", "spec:\r  type: NodePort\r  ports: [{port: 80}]\r",
			"spec:\r  type: NodePort\r  clusterIP: IP\r  ports: [{port: 80, nodePort: PORT}]\r"},
		{"line breaks of both kinds", "spec:\n  type: NodePort\r\n  ports:\n  - port: 80\n",
			"spec:\n  type: NodePort\r\n  clusterIP: IP\r\n  ports:\n  - port: 80\n    nodePort: PORT\n"},
		{"no line break at the end", "spec:\n  type: NodePort\n  ports:\n  - port: 80",
			"spec:\n  type: NodePort\n  clusterIP: IP\n  ports:\n  - port: 80\n    nodePort: PORT"},
		{"no line break at the end, CRLF", "spec:\r\n  type: NodePort\r\n  ports:\r\n  - port: 80",
			"spec:\r\n  type: NodePort\r\n  clusterIP: IP\r\n  ports:\r\n  - port: 80\r\n    nodePort: PORT"},
		{"blanks at the ends of lines", "spec: \n  type: NodePort\t \n  ports: \n  - port: 80  \n   \n",
			"spec: \n  type: NodePort\t \n  clusterIP: IP\n  ports: \n  - port: 80  \n    nodePort: PORT\n   \n"},
		{"an empty value with a blank", "spec:\n  clusterIP: \n  ports: [{port: 80}]\n",
			"spec:\n  clusterIP: IP\n  ports: [{port: 80}]\n"},
		{"an empty value without one", "spec:\n  clusterIP:\n  ports: [{port: 80}]\n",
			"spec:\n  clusterIP: IP\n  ports: [{port: 80}]\n"},
		{"an empty value at the end, CRLF", "spec:\r\n  ports: [{port: 80}]\r\n  clusterIP:\r\n",
			"spec:\r\n  ports: [{port: 80}]\r\n  clusterIP: IP\r\n"},
		{"tabs", "spec: {\n\t\ttype:\tNodePort,\n\t\tports:\t[\t{\tport:\t80\t}\t]\n}\n",
			"spec: {\n\t\ttype:\tNodePort,\n\t\tclusterIP: IP,\n\t\tports:\t[\t{\tport:\t80, nodePort: PORT\t}\t]\n}\n"},
		{"letters of several bytes", "spec: {externalName: 'größer — 大', type: NodePort, ports: [{name: x, appProtocol: \"a\", port: 80}]} # ünï\n",
			"spec: {externalName: 'größer — 大', type: NodePort, clusterIP: IP, ports: [{name: x, appProtocol: \"a\", port: 80, nodePort: PORT}]} # ünï\n"},
		{"escapes and quotes", "spec: {'type': 'NodePort', \"ports\": [{\"na\\u006de\": \"a\\u0062\", \"port\": 80}], externalName: 'it''s'}\n",
			"spec: {'type': 'NodePort', 'clusterIP': 'IP', \"ports\": [{\"na\\u006de\": \"a\\u0062\", \"port\": 80, \"nodePort\": PORT}], externalName: 'it''s'}\n"},
		{"IPv6 in quotes", "spec:\n  type: ClusterIP\n  ipFamilies: [IPv6]\n  ports: [{port: 80}]\n",
			"spec:\n  type: ClusterIP\n  clusterIP: \"IP\"\n  ipFamilies: [IPv6]\n  ports: [{port: 80}]\n"},
		{"a key with a ?", "spec:\n  ? type\n  : NodePort\n  ports: [{port: 80}]\n",
			"spec:\n  clusterIP: IP\n  ? type\n  : NodePort\n  ports: [{port: 80, nodePort: PORT}]\n"},
		{"a value that spans lines", "spec:\n  type: \"Node\\\n    Port\"\n  ports: [{port: 80}]\n",
			"spec:\n  clusterIP: IP\n  type: \"Node\\\n    Port\"\n  ports: [{port: 80, nodePort: PORT}]\n"},
		{"a block scalar", "spec:\n  type: >-\n    NodePort\n  ports: [{port: 80}]\n",
			"spec:\n  clusterIP: IP\n  type: >-\n    NodePort\n  ports: [{port: 80, nodePort: PORT}]\n"},
		{"an anchor in a line of its own", "spec:\n  &a\n  ports: [{port: 80}]\n  sessionAffinity: None\n",
			"spec:\n  &a\n  ports: [{port: 80}]\n  sessionAffinity: None\n  clusterIP: IP\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before := head
			if eol := strings.TrimPrefix(tt.text, "spec:"); strings.HasPrefix(eol, "\r") {
				before = strings.ReplaceAll(head, "\n", eol[:strings.IndexByte(eol, ' ')])
			}
			for _, bom := range []string{"", "\ufeff"} {
				p := pinOne(t, "x.yaml", bom+before+tt.text)
				if len(p.Refusals) > 0 || len(p.Files) != 1 {
					t.Fatalf("%+v", p)
				}
				if got := unnamed(p); got != bom+before+tt.want {
					t.Errorf("\n got %q\nwant %q", got, bom+before+tt.want)
				}
			}
		})
	}
}

// unnamed gives the first file of a plan with IP and PORT for what was chosen.
func unnamed(p *Plan) string {
	text := string(p.Files[0].After)
	for _, v := range p.Values {
		name := "IP"
		if strings.HasSuffix(strings.ToLower(v.Field), "nodeport") {
			name = "PORT"
		}
		text = strings.ReplaceAll(text, v.Text, name)
	}
	return text
}

// Aliases that multiply are not followed: pin reads every document of a
// directory, also those that are in error.
func TestReadIsBounded(t *testing.T) {
	text := "a: &a " + strings.Repeat("x", 1<<20) + "\nb: [" + strings.Repeat("*a,", 20) + "]\n"
	if _, err := read(manifest.Document{Text: []byte(text)}); err == nil || !strings.Contains(err.Error(), "aliases") {
		t.Errorf("%v", err)
	}
}

// What is found to be wrong after an edit is thrown away, whatever led to it.
func TestVerify(t *testing.T) {
	const before = "apiVersion: v1\nkind: Service\nmetadata: {name: x}\nspec:\n  ports: [{port: 80}]\n"
	for _, tt := range []struct{ name, after, value, want string }{
		{"right", before + "  clusterIP: 10.96.0.9\n", "10.96.0.9", ""},
		{"another value", before + "  clusterIP: 10.96.0.8\n", "10.96.0.9", "changing something else"},
		{"more", before + "  clusterIP: 10.96.0.9\n  type: NodePort\n", "10.96.0.9", "changing something else"},
		{"nothing", before, "10.96.0.9", "changing something else"},
		{"broken", before + " clusterIP: 10.96.0.9\n", "10.96.0.9", "break the document"},
		{"outside the ranges", before + "  clusterIP: 10.97.0.9\n", "10.97.0.9", "make it invalid"},
	} {
		doc := manifest.Documents([]byte(before))[0]
		d, err := newDraft(doc, doc.Text)
		if err != nil {
			t.Fatal(err)
		}
		s := &service{settings: []setting{{holder: []string{"spec"}, key: keyClusterIP, value: tt.value}}}
		switch err := d.verify([]byte(tt.after), []*service{s}, ranges); {
		case tt.want == "" && err != nil, tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}
