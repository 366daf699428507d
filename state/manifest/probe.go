package manifest

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"pointsman/state"
)

// maxProbe is how long the text of a readiness-probe may be. An exec probe may
// hold a little script; a certificate has no place in it.
const maxProbe = 16 << 10 // bytes

// probeSpec is a core/v1 Probe. It isn't that type itself, for there a port
// that is left out, which means something here, can't be told from port 0.
//
// The target of a probe is always the endpoint's address. So httpGet.host,
// which in a Pod is another address to connect to, is only what the Host
// header and the TLS server name say.
type probeSpec struct {
	Exec      *corev1.ExecAction `json:"exec"`
	HTTPGet   *httpGetSpec       `json:"httpGet"`
	TCPSocket *tcpSocketSpec     `json:"tcpSocket"`
	GRPC      *grpcSpec          `json:"grpc"`

	InitialDelaySeconds           int32  `json:"initialDelaySeconds"`
	PeriodSeconds                 int32  `json:"periodSeconds"`
	TimeoutSeconds                int32  `json:"timeoutSeconds"`
	SuccessThreshold              int32  `json:"successThreshold"`
	FailureThreshold              int32  `json:"failureThreshold"`
	TerminationGracePeriodSeconds *int64 `json:"terminationGracePeriodSeconds"`
}

type httpGetSpec struct {
	Path        string              `json:"path"`
	Port        *intstr.IntOrString `json:"port"`
	Host        string              `json:"host"`
	Scheme      corev1.URIScheme    `json:"scheme"`
	HTTPHeaders []corev1.HTTPHeader `json:"httpHeaders"`
}

type tcpSocketSpec struct {
	Port *intstr.IntOrString `json:"port"`
	Host string              `json:"host"`
}

type grpcSpec struct {
	Port    *intstr.IntOrString `json:"port"` // in a Pod it can't be a name
	Service *string             `json:"service"`
}

// readProbe decodes a readiness-probe as strictly as a manifest, defaults it,
// and tells what is wrong with it, by paths within it. The spec is nil where
// there was nothing to decode.
func readProbe(text string) (*probeSpec, []finding) {
	docs := split([]byte(text))
	switch {
	case len(text) > maxProbe:
		return nil, []finding{{rule: ruleProbeSize, message: fmt.Sprintf("Too long: may not be more than %d bytes", maxProbe)}}
	case len(docs) == 0:
		return nil, []finding{{rule: ruleProbeHandler, message: "Required value: must hold the YAML of a Probe, such as httpGet: {path: /healthz}"}}
	case len(docs) > 1:
		return nil, []finding{{rule: ruleDocumentEnd, message: "must be one YAML document"}}
	}
	d := &decoding{doc: docs[0]}
	js, found := d.toJSON()
	if js == nil {
		return nil, ofText(found)
	}
	found = append(found, d.leadingZeros()...)
	if js[0] != '{' {
		return nil, append(ofText(found), finding{rule: ruleNotAnObject, message: "must be an object with httpGet, tcpSocket, grpc or exec"})
	}
	p := new(probeSpec)
	found = append(found, decodeInto(js, p, func() []finding {
		p.setDefaults()
		return p.validate()
	})...)
	return p, ofText(found)
}

// ofText makes findings of the text of an annotation those of the document
// that it stands in. A line of the text is one of the document's only in a
// block scalar, so such findings are found by their fields (see lineOf), and
// where there is no field the line is a part of the message.
func ofText(found []finding) []finding {
	for i := range found {
		f := &found[i]
		if f.line > 0 && f.field == "" {
			f.message = fmt.Sprintf("in line %d of the text: %s", f.line, f.message)
		}
		f.line = 0
	}
	return found
}

// setDefaults is SetDefaults_Probe and SetDefaults_HTTPGetAction of core/v1.
func (p *probeSpec) setDefaults() {
	for _, d := range []struct {
		value *int32
		to    int32
	}{{&p.TimeoutSeconds, 1}, {&p.PeriodSeconds, 10}, {&p.SuccessThreshold, 1}, {&p.FailureThreshold, 3}} {
		if *d.value == 0 {
			*d.value = d.to
		}
	}
	if h := p.HTTPGet; h != nil {
		if h.Path == "" {
			h.Path = "/"
		}
		if h.Scheme == "" {
			h.Scheme = corev1.URISchemeHTTP
		}
	}
}

// validate is validateProbe of core/v1, and what a probe from another host
// asks for besides.
func (p *probeSpec) validate() []finding {
	var f findings
	f.handlers(p)
	for _, n := range []struct {
		name  string
		value int32
	}{
		{"periodSeconds", p.PeriodSeconds}, {"timeoutSeconds", p.TimeoutSeconds},
		{"successThreshold", p.SuccessThreshold}, {"failureThreshold", p.FailureThreshold},
	} {
		if n.value < 0 {
			f.err(ruleProbeNumber, field.Invalid(field.NewPath(n.name), n.value, "must be greater than 0"))
		}
	}
	if p.InitialDelaySeconds != 0 {
		f.warn(ruleProbeUnused, field.NewPath("initialDelaySeconds"), "has no effect: when the process started isn't known here")
	}
	if p.TerminationGracePeriodSeconds != nil {
		f.warn(ruleProbeUnused, field.NewPath("terminationGracePeriodSeconds"), "has no effect: a probe ends no process here")
	}
	return f
}

func (f *findings) handlers(p *probeSpec) {
	n := 0
	if p.HTTPGet != nil {
		n++
		f.httpGet(p.HTTPGet)
	}
	if p.TCPSocket != nil {
		n++
		f.tcpSocket(p.TCPSocket)
	}
	if p.GRPC != nil {
		n++
		f.probePort(field.NewPath("grpc", "port"), p.GRPC.Port)
	}
	if p.Exec != nil {
		n++
		f.exec(p.Exec)
	}
	switch {
	case n == 0:
		*f = append(*f, finding{rule: ruleProbeHandler, message: "Required value: must specify one of httpGet, tcpSocket, grpc and exec (with nothing in it: tcpSocket: {})"})
	case n > 1:
		*f = append(*f, finding{rule: ruleProbeHandler, message: "Forbidden: may not specify more than 1 of httpGet, tcpSocket, grpc and exec"})
	}
}

// hostHeader is what may stand in a Host header: looser than the names that
// DNS has, for a virtual host may have any.
var hostHeader = regexp.MustCompile(`^([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?$`)

func (f *findings) httpGet(h *httpGetSpec) {
	path := field.NewPath("httpGet")
	f.probePort(path.Child("port"), h.Port)
	f.err(ruleProbeScheme, oneOf(path.Child("scheme"), h.Scheme, []corev1.URIScheme{corev1.URISchemeHTTP, corev1.URISchemeHTTPS})...)
	if h.Host != "" && !hostHeader.MatchString(h.Host) {
		f.err(ruleProbeHost, field.Invalid(path.Child("host"), h.Host, "must be what a Host header holds: a name, or an address (IPv6 in brackets)"))
	}
	for i, header := range h.HTTPHeaders {
		at := path.Child("httpHeaders").Index(i)
		f.err(ruleProbeHeader, invalid(at.Child("name"), header.Name, validation.IsHTTPHeaderName(header.Name))...)
		if strings.ContainsFunc(header.Value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
			f.err(ruleProbeHeader, field.Invalid(at.Child("value"), header.Value, "must not contain control characters"))
		}
	}
}

func (f *findings) tcpSocket(s *tcpSocketSpec) {
	path := field.NewPath("tcpSocket")
	f.probePort(path.Child("port"), s.Port)
	if s.Host != "" {
		f.err(ruleProbeHost, field.Forbidden(path.Child("host"), "the endpoint's own address is probed: another one would tell nothing of it"))
	}
}

func (f *findings) exec(e *corev1.ExecAction) {
	path := field.NewPath("exec", "command")
	if len(e.Command) == 0 {
		f.err(ruleProbeCommand, field.Required(path, ""))
	}
	for i, word := range e.Command {
		if strings.ContainsRune(word, 0) {
			f.err(ruleProbeCommand, field.Invalid(path.Index(i), word, "must not contain a NUL character"))
		}
	}
	if len(e.Command) > 0 && e.Command[0] == "" {
		f.err(ruleProbeCommand, field.Required(path.Index(0), "must be a program"))
	}
}

func (f *findings) probePort(path *field.Path, port *intstr.IntOrString) {
	switch {
	case port == nil:
	case port.Type == intstr.Int:
		f.err(ruleProbePort, portNumber(path, port.IntVal)...)
	default:
		f.err(ruleProbePort, invalid(path, port.StrVal, validation.IsValidPortName(port.StrVal))...)
	}
}

// askedProbe is a good probe, as an annotation asks for it.
type askedProbe struct {
	*state.Probe
	port  *intstr.IntOrString // nil: each port is judged by itself
	field string              // of the port
}

// maxProbes is how many texts of probes are remembered.
const maxProbes = 4096

// probeOf gives the probe that a text means, nil where it's none. Most Services
// of a fleet have one of a few texts, which are read, and kept in memory, once.
func (l *Loader) probeOf(text string) *askedProbe {
	if known := l.probes[text]; known != nil {
		return known
	}
	spec, found := readProbe(text)
	if hasErrors(found) {
		return nil
	}
	if len(l.probes) >= maxProbes {
		clear(l.probes)
	}
	p := newProbe(spec)
	l.probes[text] = p
	return p
}

// newProbe turns a good spec into what it means.
func newProbe(p *probeSpec) *askedProbe {
	a := &askedProbe{Probe: &state.Probe{
		Period:           time.Duration(p.PeriodSeconds) * time.Second,
		Timeout:          time.Duration(p.TimeoutSeconds) * time.Second,
		SuccessThreshold: int(p.SuccessThreshold),
		FailureThreshold: int(p.FailureThreshold),
	}}
	handler := ""
	switch {
	case p.HTTPGet != nil:
		handler, a.port, a.HTTP = "httpGet", p.HTTPGet.Port, httpProbeOf(p.HTTPGet)
	case p.TCPSocket != nil:
		handler, a.port = "tcpSocket", p.TCPSocket.Port
	case p.GRPC != nil:
		handler, a.port, a.GRPC = "grpc", p.GRPC.Port, &state.GRPCProbe{Service: deref(p.GRPC.Service, "")}
	case p.Exec != nil:
		handler, a.Exec = "exec", p.Exec.Command
	}
	a.field = annPath.Key(annotationReadinessProbe).Child(handler, "port").String()
	return a
}

func httpProbeOf(h *httpGetSpec) *state.HTTPProbe {
	p := &state.HTTPProbe{TLS: h.Scheme == corev1.URISchemeHTTPS, Host: h.Host, Path: h.Path}
	for _, header := range h.HTTPHeaders {
		p.Headers = append(p.Headers, state.Header{Name: header.Name, Value: header.Value})
	}
	return p
}
