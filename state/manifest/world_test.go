package manifest

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"pointsman/state"
)

// world draws documents of all kinds: few names, and addresses and ports out
// of so many, so that they often clash or hardly ever; now and then one is in
// error or doesn't parse.
type world struct {
	t     *rapid.T
	width int
}

func newWorld(t *rapid.T) world {
	return world{t, rapid.SampledFrom([]int{2, 200}).Draw(t, "width")}
}

func (w world) pick(of ...string) string { return rapid.SampledFrom(of).Draw(w.t, "pick") }

// seldom gives what once in five times, and else nothing.
func (w world) seldom(what string) string { return w.pick("", "", "", "", what) }

// some gives prefix and a number.
func (w world) some(prefix string, first int) string {
	return prefix + strconv.Itoa(first+rapid.IntRange(0, w.width).Draw(w.t, prefix))
}

func (w world) document() string {
	switch w.pick("object", "object", "object", "object", "object", "List", "bad") {
	case "List":
		return fmt.Sprintf("{apiVersion: v1, kind: List, items: [%s, %s]}", w.object(), w.object())
	case "bad":
		return w.bad()
	}
	return w.object()
}

// bad draws what tells less and less of the object that it holds.
func (w world) bad() string {
	return w.pick(
		fmt.Sprintf("apiVersion: v1\nkind: Service\nmetadata:\n  namespace: %s\n  name: %s\nspec: {ports: 1}", w.pick("a", "b"), w.pick("x", "y", "z")),
		fmt.Sprintf("apiVersion: v1\nkind: Service\nmetadata:\n  namespace: a\n  name: %s\nspec: {", w.pick("x", "y", "z")),
		fmt.Sprintf("{apiVersion: v1, kind: Node, metadata: {name: %s}, status: {addresses: [{type: InternalIP, address: 127.0.0.1}]}}", w.pick("n1", "n2")),
		"{apiVersion: v1, kind: ServiceList, items: [{metadata: {name: x}, spec: {clusterIp: 10.96.0.1}}]}",
		"kind: Deployment\nmetadata: {name: x}", "- a list", "# nothing", "{")
}

func (w world) object() string {
	switch w.pick("Service", "Service", "Service", "EndpointSlice", "EndpointSlice", "Endpoints", "Node") {
	case "Service":
		return w.service()
	case "EndpointSlice":
		return w.slice()
	case "Endpoints":
		return fmt.Sprintf("{apiVersion: v1, kind: Endpoints, %s, subsets: [{addresses: [{ip: %s}], notReadyAddresses: [{ip: %s}], ports: [{name: p, port: 80}]}]}",
			w.meta(w.seldom("labels: {endpointslice.kubernetes.io/skip-mirror: 'true'}")), w.some("10.0.0.", 1), w.some("'2001:db8::", 1)+"'")
	}
	return fmt.Sprintf("{apiVersion: v1, kind: Node, metadata: {name: %s, labels: {zone: %s}}, status: {addresses: [{type: InternalIP, address: %s}]}}",
		w.pick("n1", "n2"), w.pick("a", "b"), w.pick(w.some("10.0.0.", 1), w.some("10.96.0.", 1)))
}

// meta draws metadata, with more of it.
func (w world) meta(more ...string) string {
	parts := append([]string{"namespace: " + w.pick("a", "b"), "name: " + w.pick("x", "y", "z")}, more...)
	parts = append(parts, w.seldom("annotations: {pointsman/probe-from: 'zone=a'}"))
	return "metadata: {" + flow(parts) + "}"
}

// flow joins the parts that are not empty.
func flow(parts []string) string {
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), ", ")
}

func (w world) slice() string {
	name, family := w.pick("x", "y", "z"), w.pick("IPv4", "IPv4", "IPv4", "IPv6", "FQDN")
	meta := fmt.Sprintf("namespace: %s, name: %s-%s, labels: {kubernetes.io/service-name: %s}", w.pick("a", "b"), name, w.pick("1", "2"), w.pick(name, name, "nobody"))
	var endpoints []string
	for range rapid.IntRange(0, 3).Draw(w.t, "endpoints") {
		endpoints = append(endpoints, w.endpoint(family))
	}
	return fmt.Sprintf("{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {%s},\naddressType: %s, ports: [%s], endpoints: [%s]}",
		meta, family, w.pick("", "{name: p, port: 80}", "{name: p, port: 81}", "{name: p, port: 80}, {name: q, port: 81, protocol: UDP}"), strings.Join(endpoints, ", "))
}

func (w world) endpoint(family string) string {
	address := map[string]string{
		"IPv4": w.pick(w.some("10.0.0.", 1), w.some("10.96.0.", 1), w.some("192.0.2.", 1)),
		"IPv6": w.some("'2001:db8::", 1) + "'",
		"FQDN": "db.example.com",
	}[family]
	return fmt.Sprintf("{addresses: [%s], nodeName: %s, zone: %s, conditions: {ready: %s, terminating: %s}}",
		address, w.pick("n1", "n2"), w.pick("a", "b"), w.pick("true", "false"), w.pick("true", "false"))
}

func (w world) service() string {
	annotations := []string{
		w.seldom("pointsman/node-selector: 'zone=a'"), w.seldom("pointsman/readiness-probe: 'tcpSocket: {}'"), w.seldom("pointsman/nonsense: x"),
	}
	spec := []string{
		w.pick("clusterIP: "+w.some("10.96.0.", 1), "clusterIP: "+w.some("10.96.0.", 1), "clusterIP: "+w.some("'fd00:96::", 1)+"'", "clusterIP: None", ""),
		w.seldom("selector: {app: x}"), w.seldom("trafficDistribution: PreferSameZone"), w.seldom("internalTrafficPolicy: Local"),
	}
	if w.pick("yes", "no") == "yes" {
		spec = append(spec, fmt.Sprintf("externalIPs: [%s]", w.pick(w.some("10.96.0.", 1), w.some("192.0.2.", 1), w.some("'2001:db8::", 1)+"'")))
	}
	spec = append(spec, w.ports()...)
	return fmt.Sprintf("{apiVersion: v1, kind: Service, %s, spec: {%s}}", w.meta("annotations: {"+flow(annotations)+"}"), flow(spec))
}

// ports draws a type with its ports.
func (w world) ports() []string {
	port := w.pick("80", "81", "81, targetPort: 8080", "81, targetPort: web", "80, protocol: UDP")
	switch w.pick("ClusterIP", "NodePort", "LoadBalancer", "ExternalName") {
	case "NodePort":
		return []string{"type: NodePort", fmt.Sprintf("ports: [{name: p, port: %s, nodePort: %s}]", port, w.some("", 30000))}
	case "LoadBalancer":
		return []string{"type: LoadBalancer", "externalTrafficPolicy: Local", "loadBalancerIP: " + w.some("192.0.2.", 1),
			w.seldom("loadBalancerClass: example.com/x"), w.seldom("loadBalancerSourceRanges: [10.0.0.0/8]"),
			"healthCheckNodePort: " + w.some("", 30001), fmt.Sprintf("ports: [{name: p, port: %s}]", port)}
	case "ExternalName":
		return []string{w.pick("type: ExternalName, externalName: example.com", fmt.Sprintf("ports: [{name: p, port: %s}]", port))}
	}
	return []string{fmt.Sprintf("ports: [{name: p, port: %s}, {name: q, port: 90}]", port)}
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

// The order in which files are listed decides nothing, nor that in which they
// came to be there, one by one, on a host that served what there was. Every
// problem is of a rule.
func TestLoadIgnoresOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		files := newWorld(t).tree()
		want := loadFresh(files)
		for _, p := range want.Problems {
			if severity, known := severities[p.Rule]; !known || severity != p.Severity {
				t.Errorf("%s: severity %d and rule %q", p, p.Severity, p.Rule)
			}
		}
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		s := snapshotOf(files)
		rng.Shuffle(len(s.Files), func(i, k int) { s.Files[i], s.Files[k] = s.Files[k], s.Files[i] })
		compareResults(t, "listed in another order", NewLoader(ranges, "").Load(s), want)
		l := NewLoader(ranges, "")
		for n := range len(s.Files) {
			l.Accept(l.Load(&Snapshot{Files: slices.Clone(s.Files[:n])}))
		}
		compareResults(t, "come one by one", l.Load(s), want)
	})
}

// Which file an object stands in decides only between objects of one name.
func TestLoadIgnoresSplit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		docs := newWorld(t).distinct()
		want := withoutPlaces(loadFresh(map[string]string{"all.yaml": strings.Join(docs, "\n---\n")}))
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		rng.Shuffle(len(docs), func(i, k int) { docs[i], docs[k] = docs[k], docs[i] })
		files := map[string]string{}
		for _, doc := range docs {
			files[fmt.Sprintf("%d.yaml", rng.IntN(4))] += doc + "\n---\n"
		}
		if got := withoutPlaces(loadFresh(files)); got != want {
			t.Errorf("split over files: got\n%s\nwant\n%s", got, want)
		}
	})
}

// distinct draws documents, good or bad, no two objects of which have the same
// name.
func (w world) distinct() []string {
	var docs []string
	seen := map[Key]bool{}
	for range rapid.IntRange(1, 12).Draw(w.t, "documents") {
		doc := w.document()
		objects := Decode(&File{Path: "x.yaml", Data: []byte(doc)}, ranges)
		if slices.ContainsFunc(objects, func(o *Object) bool { return seen[o.Key] }) {
			continue
		}
		again := false
		for _, o := range objects {
			again = again || seen[o.Key]
			seen[o.Key] = isTold(o.Key)
		}
		if !again {
			docs = append(docs, doc)
		}
	}
	return docs
}

var place = regexp.MustCompile(`\w+\.yaml:\d+|items\[\d+\]\.`)

// withoutPlaces renders a Result without files, lines and items of Lists.
func withoutPlaces(r *Result) string {
	var b strings.Builder
	for _, s := range r.Services {
		moved := *s
		moved.Source = state.Source{}
		renderService(&b, &moved)
	}
	for _, n := range r.Nodes {
		fmt.Fprintf(&b, "node %s %q %v\n", n.Name, n.Zone, n.Addresses)
	}
	for _, k := range r.Stale {
		fmt.Fprintf(&b, "stale %s\n", k)
	}
	var problems []string
	for _, p := range r.Problems {
		text := fmt.Sprintf("%s %d %s %s: %s", p.Rule, p.Severity, p.Object, p.Field, p.Message)
		problems = append(problems, place.ReplaceAllString(text, ""))
	}
	slices.Sort(problems)
	return b.String() + strings.Join(slices.Compact(problems), "\n")
}
