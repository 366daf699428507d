package main

import (
	"fmt"
	"iter"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"pointsman/reconcile"
	"pointsman/state"
	"pointsman/state/manifest"
)

// servicesAnswer lists the Services of the manifests, served here or not.
type servicesAnswer struct {
	Services []serviceAnswer `json:"services"`
}

type serviceAnswer struct {
	Namespace  string   `json:"namespace"`
	Name       string   `json:"name"`
	Type       string   `json:"type,omitempty"`
	ClusterIPs []string `json:"clusterIPs,omitempty"`
	External   []string `json:"external,omitempty"`  // externalIPs, then load-balancer addresses
	Ports      []string `json:"ports,omitempty"`     // such as 80:30080/TCP
	Endpoints  string   `json:"endpoints,omitempty"` // ready/all, of each port if they differ
	Status     string   `json:"status"`

	Policies     string   `json:"policies,omitempty"` // internal/external
	Affinity     string   `json:"affinity,omitempty"`
	SourceRanges []string `json:"sourceRanges,omitempty"`
	HealthPort   uint16   `json:"healthPort,omitempty"`
	Source       string   `json:"source,omitempty"` // file:line
}

// services gives those that are asked for: as objects only what is served here.
func (c *control) services(q wanted) answer {
	l := c.look(q)
	rows := l.rows()
	a := listOf(`{"services":`, slices.Values(rows))
	if q.objects {
		a = listOf(openList, l.effective())
	}
	a.starting, a.missing = l.inForce == nil, q.missing(len(rows) > 0, "Service")
	if q.objects && len(rows) == 1 && q.name != "" && len(l.here) == 0 {
		a.missing = fmt.Sprintf("Service %s/%s: %s", rows[0].Namespace, rows[0].Name, rows[0].Status)
	}
	return a
}

// lookout is what there is to be known of Services at one moment.
type lookout struct {
	node     reconcile.Node
	inForce  *inForce
	declared []manifest.Declaration              // what is in force
	waiting  []manifest.Declaration              // what the manifests mean, where that isn't it
	served   map[state.ObjectName]*state.Service // by any host
	here     map[state.ObjectName]*state.Service // by this one, as health leaves it
	stale    map[state.ObjectName]bool
	wrong    map[state.ObjectName]manifest.Problem // the first error of each
	held     map[state.ObjectName]string           // what a held change would do to each

	nodePorts      []netip.Addr // that NodePorts answer on
	nodePortsKnown bool
}

func (c *control) look(q wanted) *lookout {
	l := &lookout{node: reconcile.Node{Name: c.source.nodeName}, inForce: c.source.inForce.Load(),
		stale: map[state.ObjectName]bool{}, wrong: map[state.ObjectName]manifest.Problem{}}
	if d := c.source.latest.Load(); d != nil {
		l.node.Zone, l.here = d.Zone, byName(d.Services, q)
	}
	l.nodePorts, l.nodePortsKnown = c.nodePortAddresses()
	judged := c.source.judged.Load()
	if l.inForce != nil {
		r := l.inForce.result
		l.held = l.inForce.awaits(l.node.Name)
		l.declared, l.served = r.Declarations(q.has), byName(r.Services, q)
		for _, k := range r.Stale {
			l.stale[k.ObjectName] = l.stale[k.ObjectName] || k.Kind == manifest.KindService
		}
	}
	if judged == nil {
		return l
	}
	if l.inForce == nil || judged != l.inForce.result {
		l.waiting = judged.Declarations(q.has)
	}
	for _, p := range judged.Problems {
		n := p.Object.ObjectName
		if _, told := l.wrong[n]; !told && p.Object.Kind == manifest.KindService && p.Severity == manifest.Error && q.has(n) {
			l.wrong[n] = p
		}
	}
	return l
}

func byName(services []*state.Service, q wanted) map[state.ObjectName]*state.Service {
	out := map[state.ObjectName]*state.Service{}
	for _, s := range services {
		if q.has(s.ObjectName) {
			out[s.ObjectName] = s
		}
	}
	return out
}

// effective gives what is served here as v1 Services.
func (l *lookout) effective() iter.Seq[any] {
	return func(yield func(any) bool) {
		for i := range l.declared {
			d := &l.declared[i]
			if s := l.here[d.ObjectName]; fits(s, d) && !yield(d.Effective(s)) {
				return
			}
		}
	}
}

// rows gives a line for each Service of the manifests, and for each that was
// refused.
func (l *lookout) rows() []serviceAnswer {
	rows := []serviceAnswer{}
	told := map[state.ObjectName]bool{}
	for i := range l.declared {
		d := &l.declared[i]
		told[d.ObjectName] = true
		rows = append(rows, l.row(d, l.status(d)+l.held[d.ObjectName]))
	}
	for i := range l.waiting {
		if d := &l.waiting[i]; !told[d.ObjectName] {
			told[d.ObjectName] = true
			rows = append(rows, l.row(d, l.waits()))
		}
	}
	for n, p := range l.wrong {
		if !told[n] {
			rows = append(rows, serviceAnswer{Namespace: n.Namespace, Name: n.Name, Source: p.Source.String(), Status: fmt.Sprintf("refused (%s)", p.Source)})
		}
	}
	slices.SortFunc(rows, func(a, b serviceAnswer) int {
		return state.ObjectName{Namespace: a.Namespace, Name: a.Name}.Compare(state.ObjectName{Namespace: b.Namespace, Name: b.Name})
	})
	return rows
}

// waits says why what the manifests mean isn't served.
func (l *lookout) waits() string {
	if l.inForce != nil && l.inForce.held != nil {
		return "the change is held"
	}
	return "not served yet"
}

func (l *lookout) row(d *manifest.Declaration, status string) serviceAnswer {
	a := serviceAnswer{Namespace: d.Namespace, Name: d.Name, Type: d.Type, Source: d.Source.String(), Status: status}
	s := l.here[d.ObjectName]
	if !fits(s, d) {
		s = l.served[d.ObjectName]
	}
	for i, p := range d.Ports {
		text := strconv.Itoa(int(p.Number))
		if s == nil || hasNodePort(&s.Ports[i]) {
			text += nodePortText(p.NodePort)
		}
		a.Ports = append(a.Ports, text+"/"+string(p.Protocol))
	}
	if s == nil {
		return a
	}
	a.ClusterIPs, a.SourceRanges = textsOf(s.ClusterIPs), textsOf(s.SourceRanges)
	a.External, a.Endpoints, a.HealthPort = externalOf(s), readyText(s), s.HealthCheckNodePort
	a.Policies = fmt.Sprintf("%s/%s", s.InternalTrafficPolicy, s.ExternalTrafficPolicy)
	if s.Affinity > 0 {
		a.Affinity = fmt.Sprintf("%.0fs", s.Affinity.Seconds()) // as the manifest has it
	}
	return a
}

// fits reports whether a Service, if there is one, is what became of a declaration.
// While a change is put in force, one of the two is known a moment before the other.
func fits(s *state.Service, d *manifest.Declaration) bool {
	return s != nil && slices.EqualFunc(s.Ports, d.Ports, func(p state.Port, q manifest.DeclaredPort) bool { return p.Protocol == q.Protocol })
}

func nodePortText(port int32) string {
	if port == 0 {
		return ""
	}
	return ":" + strconv.Itoa(int(port))
}

func hasNodePort(p *state.Port) bool {
	return slices.ContainsFunc(p.Frontends, func(f state.Frontend) bool { return f.Kind == state.NodePort })
}

// externalOf gives the addresses that a Service has beside its ClusterIPs.
func externalOf(s *state.Service) []string {
	var all []string
	for _, kind := range []state.FrontendKind{state.ExternalIP, state.LoadBalancerIP} {
		for i := range s.Ports {
			for _, f := range s.Ports[i].Frontends {
				if text := f.Address.String(); f.Kind == kind && !slices.Contains(all, text) {
					all = append(all, text)
				}
			}
		}
	}
	return all
}

// readyText counts the endpoints of each port that are ready, and all of them.
func readyText(s *state.Service) string {
	var texts []string
	for i := range s.Ports {
		ready := 0
		for k := range s.Ports[i].Endpoints {
			if s.Ports[i].Endpoints[k].Ready {
				ready++
			}
		}
		texts = append(texts, fmt.Sprintf("%d/%d", ready, len(s.Ports[i].Endpoints)))
	}
	if len(slices.Compact(slices.Clone(texts))) == 1 {
		texts = texts[:1]
	}
	return strings.Join(texts, ",")
}
