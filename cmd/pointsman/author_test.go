package main

import (
	"fmt"
	"math/bits"
	"net/netip"
	"slices"
	"strings"

	"pgregory.net/rapid"

	"pointsman/state/manifest"
)

// author draws manifests of all kinds. What a document holds carries the
// document's own number, so that it can be told in a ruleset; now and then it
// takes the number of another, and the two clash. Most documents mean to be
// good. In the others any value may be one that somebody has typed, or
// some program has printed, at some time.
type author struct {
	t     *rapid.T
	n     int  // objects begun
	crowd bool // many claim the same
	apart bool // no two of them have one name
	wrong bool // the one at hand may be wrong
}

// below gives a number from 0 to n-1, each as often: rapid's own ranges and
// samples favour the first by far.
func (a *author) below(n int) int {
	x := 0
	for range bits.Len(uint(n)) + 2 {
		x *= 2
		if coin.Draw(a.t, "coin") {
			x++
		}
	}
	return x % n
}

var coin = rapid.Bool()

func (a *author) pick(of ...string) string { return of[a.below(len(of))] }

// oneIn is true once in n times.
func (a *author) oneIn(n int) bool { return a.below(n) == n-1 }

// seldom gives what once in five times, and else nothing.
func (a *author) seldom(what string) string {
	if a.oneIn(5) {
		return what
	}
	return ""
}

// value gives a good value, or what may be wrong instead.
func (a *author) value(good string, wrong ...string) string {
	if a.wrong && a.oneIn(8) {
		return a.pick(wrong...)
	}
	return good
}

// number is the document's own, or another's: seldom, or in a crowd as a rule.
func (a *author) number() int {
	if a.crowd || a.oneIn(5) {
		return 1 + a.below(2)
	}
	return a.n
}

// named is a number for a name.
func (a *author) named() int {
	if !a.apart && a.oneIn(5) {
		return 1 + a.below(3)
	}
	return a.n
}

// addr4 and addr6 give one of the addresses of a range that are the
// document's, in quotes.
func (a *author) addr4(of string, host int) string {
	return a.address(fmt.Sprintf("%s.%d.%d", of, a.number(), host))
}

func (a *author) addr6(of string, host int) string {
	return a.address(fmt.Sprintf("%s::%x:%x", of, a.number(), 9+host))
}

func (a *author) addr(of4, of6 string, host int) string {
	if a.oneIn(3) {
		return a.addr6(of6, host)
	}
	return a.addr4(of4, host)
}

func (a *author) address(good string) string {
	odd := a.value(good, "0"+good, "::ffff:"+good, good+"%eth0", good+"/32", "["+good+"]", strings.ToUpper(good), good+" ", good+"0000", good+":80")
	return "'" + a.value(odd,
		"", "None", "none", "localhost", "db.example.com", "1.2.3", "0x0a000001", "167772161",
		"0.0.0.0", "::", "127.0.0.1", "::1", "169.254.1.1", "fe80::1", "224.0.0.1", "239.1.1.1", "ff02::1", "ff05::1", "255.255.255.255",
		"240.0.0.1", "192.0.2.7", "198.51.100.7", "203.0.113.7", "2001:db8::7", "64:ff9b::1", "::10.0.0.1", "100::1",
		"10.96.0.0", "10.96.255.255", "10.97.0.1", "fd00:96::", hostAddress4, hostAddress6) + "'"
}

func (a *author) port(good string) string {
	return a.value(good, "0", "-3", "65535", "65536", "70000", "080", "0120", "0o120", "0x50", "8_080", "80.0", "80.5", "99999999999", "'80'", "''", "http", "null", "[80]")
}

// name gives names, mostly good, some of them as long as they may be (C40).
func (a *author) name(good string) string {
	return a.value(good, fmt.Sprintf("8ball-%d", a.n), fmt.Sprintf("a.b%d", a.n), fmt.Sprintf("%064d", a.n), "", "no", "123", "Web", "a_b", "-a", "a-", "'a b'", "*a", "'{}'", "ünïcode", "'a;flush ruleset'", "'$(reboot)'",
		strings.Repeat("n", 300))
}

// nameOf gives a Service's namespace and name, by its number.
func nameOf(n int) (namespace, name string) {
	namespace, name = "default", fmt.Sprintf("s%d", n)
	if n%3 == 0 {
		namespace = strings.Repeat("team-", 12) + "xyz"
	}
	if n%4 == 0 {
		name = strings.Repeat("s", 61) + fmt.Sprintf("%02d", n)
	}
	return namespace, name
}

func (a *author) meta(namespace, name string, more ...string) string {
	return "metadata: {" + flow(append([]string{"namespace: " + a.name(namespace), "name: " + a.name(name)}, more...)...) + "}"
}

// flow joins the parts that are not empty.
func flow(parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), ", ")
}

// place draws the configuration of a host.
func (a *author) place() place {
	s := place{Config: manifest.Config{NodePortFirst: 30000, NodePortLast: 32767}}
	of4, of6 := netip.MustParsePrefix("10.96.0.0/16"), netip.MustParsePrefix("fd00:96::/64")
	s.ServiceCIDRs = [][]netip.Prefix{nil, nil, nil, {of4, of6}, {of4, of6}, {of4, of6}, {of4, of6}, {of4, of6}, {of4}, {of6}}[a.below(10)]
	if a.oneIn(2) {
		s.local = []netip.Prefix{netip.MustParsePrefix("10.20.0.0/16"), netip.MustParsePrefix("10.20.1.0/24"), netip.MustParsePrefix("fd00:20::/32")}
	}
	return s
}

// files draws up to most files of a few documents.
func (a *author) files(most int) map[string][]string {
	files := map[string][]string{}
	for i := range 1 + a.below(most) {
		for range 1 + a.below(3) {
			name := fmt.Sprintf("%d.yaml", i)
			files[name] = append(files[name], a.document())
		}
	}
	return files
}

func (a *author) document() string {
	switch a.pick("object", "object", "object", "object", "object", "List", "broken") {
	case "List":
		return fmt.Sprintf("{apiVersion: v1, kind: %s, items: [%s, %s]}", a.value("List", "ServiceList", "list"), a.object(), a.object())
	case "broken":
		return a.broken()
	}
	return a.object()
}

// broken draws what tells less and less of the object that it holds.
func (a *author) broken() string {
	whole := a.object()
	return a.pick(
		whole[:1+a.below(len(whole)-1)],
		strings.Replace(whole, "kind:", "kind: Deployment, was:", 1), strings.Replace(whole, "kind:", "Kind:", 1),
		strings.Replace(whole, "apiVersion: ", "apiVersion: v1beta1, was: ", 1), strings.Replace(whole, "metadata:", "metadata: {}, was:", 1),
		strings.Replace(whole, "'", "", 1), strings.Replace(whole, ", ", ",\t\xff", 1), strings.Replace(whole, "{", "", 1),
		"["+whole+"]", "&a "+whole+" *a", whole+" "+whole, "- a list", "a scalar", "# nothing", "{", "\x00")
}

func (a *author) object() string {
	a.n++
	a.wrong = !a.crowd && a.oneIn(3)
	if a.crowd && a.oneIn(2) {
		return a.service()
	}
	switch a.pick("Service", "Service", "Service", "Service", "EndpointSlice", "EndpointSlice", "EndpointSlice", "Endpoints", "Node") {
	case "Service":
		return a.service()
	case "EndpointSlice":
		return a.slice()
	case "Endpoints":
		return a.endpoints()
	}
	return a.node()
}

func (a *author) node() string {
	return fmt.Sprintf("{apiVersion: v1, kind: Node, metadata: {name: %s, labels: {topology.kubernetes.io/zone: %s}}, status: {addresses: [{type: InternalIP, address: %s}, {type: Hostname, address: x}]}}",
		a.name(fmt.Sprintf("n%d", a.named())), a.pick("a", "b"), a.addr("10.30", "fd00:30", 1))
}

// slicePorts has a port for each one that a Service may have, by any name.
func (a *author) slicePorts() string {
	var ports []string
	for i, p := range portNames {
		ports = append(ports, fmt.Sprintf("{name: %s, protocol: %s, port: %s}",
			a.name(p.name), a.value(p.protocol, "tcp", "ICMP", "''"), a.port(fmt.Sprint(8000+a.number()*10+i))))
	}
	return a.value(strings.Join(ports, ", "), "", "{}", "{name: p0}", ports[1]+", "+ports[1])
}

var portNames = []struct{ name, protocol string }{
	{"''", "TCP"}, {"p0", "TCP"}, {"p1", "UDP"}, {strings.Repeat("p", 63), "SCTP"},
}

func (a *author) slice() string {
	family := a.pick("IPv4", "IPv6")
	var endpoints []string
	for range a.below(5) {
		endpoints = append(endpoints, a.endpoint(family))
	}
	namespace, service := nameOf(1 + a.below(a.n+1))
	return fmt.Sprintf("{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, %s, addressType: %s, ports: [%s], endpoints: [%s]}",
		a.meta(namespace, fmt.Sprintf("%s.%d", service, a.named()), "labels: {kubernetes.io/service-name: "+a.name(service)+"}", a.probing()),
		a.value(family, "ipv4", "FQDN", "''"), a.slicePorts(), strings.Join(endpoints, ", "))
}

func (a *author) endpoint(family string) string {
	address := map[string]func(string, int) string{"IPv4": a.addr4, "IPv6": a.addr6}[a.value(family, "IPv4", "IPv6")]
	return "{" + flow(
		"addresses: ["+address(map[string]string{"IPv4": "10.20", "IPv6": "fd00:20"}[family], 1+a.below(3))+a.value("", ", '10.20.0.99'", ", '127.0.0.1'")+"]",
		fmt.Sprintf("conditions: {ready: %s, serving: %s, terminating: %s}", a.value(a.pick("true", "true", "false"), "yes", "'true'", "null"), a.pick("true", "false"), a.pick("true", "false")),
		a.pick("", "nodeName: "+a.name("n1"), "nodeName: n2"), a.pick("", "zone: a", "zone: b"),
		a.seldom(fmt.Sprintf("hints: {forZones: [{name: %s}], forNodes: [{name: %s}]}", a.name("a"), a.name("n1"))),
		a.value("", "hostname: ''", "nodename: n1", "deprecatedTopology: {a: b}")) + "}"
}

func (a *author) endpoints() string {
	namespace, service := nameOf(a.named() + 1)
	ready, other := a.addr("10.20", "fd00:20", 1), a.addr("10.20", "fd00:20", 2)
	return fmt.Sprintf("{apiVersion: v1, kind: Endpoints, %s, subsets: [{addresses: [{ip: %s, nodeName: n1}], notReadyAddresses: [{ip: %s}], ports: [%s]}]}",
		a.meta(namespace, service, a.seldom("labels: {endpointslice.kubernetes.io/skip-mirror: 'true'}")), ready, other,
		a.pick("{port: "+a.port("8080")+"}", "{name: p0, port: "+a.port("8080")+"}, {name: p1, protocol: UDP, port: 53}"))
}

// probing draws annotations that say how endpoints are probed.
func (a *author) probing() string {
	return a.seldom("annotations: {" + flow(
		a.seldom("pointsman/probe-from: 'topology.kubernetes.io/zone="+a.value("a", "a b", "!")+"'"),
		a.seldom(fmt.Sprintf("pointsman/readiness-probe: 'httpGet: {path: /healthz, port: %s}'", a.value("8080", "0", "70000", "p0", "nobody", "[]"))),
		a.seldom("pointsman/when-all-fail: "+a.value("reject", "sulk")), a.seldom("pointsman/panic-threshold: "+a.value("50%", "101%", "half")),
		a.seldom("pointsman/node-selector: "+a.pick("topology.kubernetes.io/zone=a", "topology.kubernetes.io/zone")), a.value("", "pointsman/nonsense: x")) + "}")
}

// spoiled gives the documents of a file with some of them turned bad, so that
// it still is or isn't to be told which objects they hold.
func (a *author) spoiled(docs []string) []string {
	docs = slices.Clone(docs)
	for i, doc := range docs {
		if a.oneIn(2) {
			docs[i] = a.pick(strings.Replace(doc, "spec: {", "spec: {nonsense: 1, ", 1), strings.Replace(doc, "ports: [", "ports: [7, ", 1), doc[:len(doc)-1], "{", "- a list", doc+" }", doc+"\xff", strings.Replace(doc, "{apiVersion: ", "{apiVersion: v1, apiVersion: ", 1),
				strings.Replace(doc, "{apiVersion: ", "{apiVersion: x", 1), strings.Replace(doc, "kind: ", "kind: Un", 1), strings.Replace(doc, "metadata: {", "metadata: [{", 1))
		}
	}
	return docs
}
