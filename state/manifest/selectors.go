package manifest

import (
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// The values of when-all-fail.
const (
	serveAll  = "serve"
	rejectAll = "reject"
)

// serviceAnnotations checks the annotations that a Service may carry, besides
// load-balancer-ips.
func (f *findings) serviceAnnotations(annotations map[string]string) {
	f.probing(annotations)
	f.selector(annotations, annotationNodeSelector)
	if text, ok := annotations[annotationWhenAllFail]; ok {
		f.err(ruleWhenAllFail, oneOf(annPath.Key(annotationWhenAllFail), text, []string{rejectAll, serveAll})...)
	}
	if text, ok := annotations[annotationPanicThreshold]; ok {
		if _, ok := percentage(text); !ok {
			f.err(rulePanicThreshold, field.Invalid(annPath.Key(annotationPanicThreshold), text, "must be a percentage from 0% to 100%, such as 50%"))
		}
	}
}

// sliceAnnotations checks those that an EndpointSlice or Endpoints may carry.
func (f *findings) sliceAnnotations(annotations map[string]string, kind Kind) {
	f.probing(annotations)
	f.misplaced(annotations, kind, annotationReadinessProbe, annotationProbeFrom)
}

// probing checks those that say how endpoints are probed.
func (f *findings) probing(annotations map[string]string) {
	if text, ok := annotations[annotationReadinessProbe]; ok {
		_, found := readProbe(text)
		*f = append(*f, within(annPath.Key(annotationReadinessProbe).String(), found)...)
	}
	f.selector(annotations, annotationProbeFrom)
}

func (f *findings) selector(annotations map[string]string, key string) {
	text, ok := annotations[key]
	if !ok {
		return
	}
	if _, err := labels.Parse(text); err != nil {
		f.err(ruleNodeSelector, field.Invalid(annPath.Key(key), text, "must be a label selector: "+err.Error()))
	}
}

// misplaced warns of annotations of ours on an object of a kind that has no
// use for them.
func (f *findings) misplaced(annotations map[string]string, kind Kind, used ...string) {
	for _, key := range ownAnnotations {
		if _, ok := annotations[key]; ok && !slices.Contains(used, key) {
			f.warn(ruleAnnotationMisplaced, annPath.Key(key), "has no effect on %s", kind)
		}
	}
}

// percentage reads N%.
func percentage(text string) (int, bool) {
	digits, ok := strings.CutSuffix(text, "%")
	n, err := strconv.ParseUint(digits, 10, 8)
	if !ok || err != nil || n > 100 {
		return 0, false
	}
	return int(n), true
}

func panicThresholdOf(annotations map[string]string) int {
	n, _ := percentage(annotations[annotationPanicThreshold])
	return n
}

// asked is what the annotations of a good Service or slice ask for. Nil fields
// aren't asked for, and a nil asked asks for nothing.
type asked struct {
	object *Object
	probe  *askedProbe
	from   *selector
	nodes  *selector // of a Service
}

// selector is a label selector over the Node manifests.
type selector struct {
	labels.Selector
	object *Object // that carries it
	field  string
	text   string
}

// askedOf reads the annotations of an object, which validation has found to be
// good.
func (l *Loader) askedOf(o *Object) *asked {
	var annotations map[string]string
	switch {
	case o.Service != nil:
		annotations = o.Service.Annotations
	case o.EndpointSlice != nil:
		annotations = o.EndpointSlice.Annotations
	case o.Endpoints != nil:
		annotations = o.Endpoints.Annotations
	}
	if len(annotations) == 0 {
		return nil
	}
	a := &asked{
		object: o,
		from:   selectorOf(o, annotations, annotationProbeFrom),
		nodes:  selectorOf(o, annotations, annotationNodeSelector),
	}
	if text, ok := annotations[annotationReadinessProbe]; ok {
		a.probe = l.probeOf(text)
	}
	return a
}

func selectorOf(o *Object, annotations map[string]string, key string) *selector {
	text, ok := annotations[key]
	if !ok {
		return nil
	}
	s, err := labels.Parse(text)
	if err != nil {
		return nil
	}
	return &selector{Selector: s, object: o, field: annPath.Key(key).String(), text: text}
}

// probing tells who asks for the probe of a slice, nil where nobody does: its
// own annotation wins over the Service's.
func (a *asked) probing(service *asked) *asked {
	switch {
	case a != nil && a.probe != nil:
		return a
	case service != nil && service.probe != nil:
		return service
	}
	return nil
}

// probingFrom gives the selector of the nodes that may probe a slice.
func (a *asked) probingFrom(service *asked) *selector {
	switch {
	case a != nil && a.from != nil:
		return a.from
	case service != nil:
		return service.from
	}
	return nil
}

// choose gives the names of the nodes that a selector selects, sorted; nil,
// which is all of them, where there is no selector or no Node manifest.
func (j *joined) choose(f *fleet, s *selector) []string {
	if s == nil {
		return nil
	}
	j.selects = true
	if len(f.nodes) == 0 {
		j.warn(ruleNodeSelectorNoNodes, s.object, s.field, "Invalid value: %q: there are no Node manifests to select from: every node is selected", s.text)
		return nil
	}
	names := f.selected(s)
	if len(names) == 0 {
		j.warn(ruleNodeSelectorNone, s.object, s.field, "Invalid value: %q: no Node manifest has such labels: no node is selected", s.text)
	}
	return names
}

// selected gives the names of the Nodes that a selector selects, sorted and
// not nil. Most of a fleet's selectors are the same few.
func (f *fleet) selected(s *selector) []string {
	names, known := f.choices[s.text]
	if !known {
		names = []string{}
		for _, n := range f.nodes {
			if s.Matches(labels.Set(n.Labels)) {
				names = append(names, n.Name)
			}
		}
		f.choices[s.text] = names
	}
	return names
}
