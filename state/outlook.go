package state

// seen is an endpoint with what there is to be said about it.
type seen struct {
	declared  *Endpoint
	family    int // 0 for IPv4, 1 for IPv6
	judgement *Judgement
	drain     *Drain

	down    bool
	untried bool // probed, and nobody reached a verdict yet
}

// regular: what a Service is meant to be served by.
func (x *seen) regular() bool { return x.declared.Ready && x.drain == nil }

// spare: what serves while it terminates, for want of regular ones (KEP-1669).
// A drained endpoint is one only if it was used before: a drain must not
// bring an endpoint into use that is declared not ready.
func (x *seen) spare() bool {
	e := x.declared
	return !x.regular() && (e.Ready || e.Serving && e.Terminating)
}

// outlook counts the endpoints of a Service port and one family, which is what
// a frontend may choose from: what is up in the other family is no help.
type outlook struct {
	service *Service

	// Regular endpoints.
	up      int // with a verdict that says so
	unsaid  int // that are usable without: no probe, or no word for long
	untried int
	down    int

	spares     int // that are not seen down
	sparesDown int
}

func (o *outlook) count(x *seen) {
	switch {
	case x.regular() && x.down:
		o.down++
	case x.regular() && x.untried:
		o.untried++
	case x.regular() && x.judgement != nil && x.judgement.Verdict == Up:
		o.up++
	case x.regular():
		o.unsaid++
	case x.spare() && x.down:
		o.sparesDown++
	case x.spare():
		o.spares++
	}
}

// shuns reports whether untried endpoints have to wait, since others are up.
func (o *outlook) shuns() bool { return o.up > 0 }

// keeps reports whether the regular endpoints are all served in spite of their
// verdicts: a wrong probe must not switch a Service off. That begins when none
// of them would be left, and no spare one either, or when fewer are healthy
// than the panic threshold asks for. Endpoints that wait for their first
// verdict don't count for the threshold, so that adding many at once is no
// reason to panic. Rejecting when all fail turns all of it off.
func (o *outlook) keeps() bool {
	healthy := o.up + o.unsaid
	if !o.shuns() {
		healthy += o.untried
	}
	none := healthy == 0 && o.spares == 0
	few := healthy*100 < o.service.PanicThreshold*(healthy+o.down)
	return o.down > 0 && (none || few) && !o.service.RejectWhenAllFail
}

// keepsSpares is the same for spare endpoints, which is for when nothing else
// is declared: then even those that are seen down stay the fallback.
func (o *outlook) keepsSpares() bool {
	regular := o.up + o.unsaid + o.untried + o.down
	return regular == 0 && o.spares == 0 && !o.service.RejectWhenAllFail
}

// effective gives an endpoint as it's to be served. Without a Cause it's as
// declared.
func (o *outlook) effective(x *seen) Endpoint {
	switch {
	case x.regular():
		return o.regular(x)
	case x.drain != nil && x.spare():
		return o.drained(x)
	}
	e := *x.declared
	switch {
	case !x.down || !e.Serving:
	case x.spare() && o.keepsSpares():
		e.Cause = &Cause{Kind: KeptAnyway, Judgement: x.judgement}
	default:
		e.Serving = false
		e.Cause = &Cause{Kind: SeenDown, Judgement: x.judgement}
	}
	return e
}

func (o *outlook) regular(x *seen) Endpoint {
	e := *x.declared
	switch waits := x.untried && o.shuns(); {
	case !x.down && !waits:
	case o.keeps():
		e.Cause = &Cause{Kind: KeptAnyway, Judgement: x.judgement}
	case x.down:
		e.Ready, e.Serving = false, false
		e.Cause = &Cause{Kind: SeenDown, Judgement: x.judgement}
	default:
		// It stays serving: its flows are not to be cut.
		e.Ready = false
		e.Cause = &Cause{Kind: Untried, Judgement: x.judgement}
	}
	return e
}

// drained makes an endpoint a terminating one. One that is declared ready
// counts as serving, whatever else is declared of it.
func (o *outlook) drained(x *seen) Endpoint {
	e := *x.declared
	cause := Cause{Kind: Drained, Drain: x.drain}
	serving := true
	if x.down {
		cause.Judgement = x.judgement
		serving = o.keepsSpares()
	}
	if x.down && serving {
		cause.Kind = KeptAnyway
	}
	e.Cause = &cause
	e.Ready, e.Serving, e.Terminating = false, serving, true
	return e
}
