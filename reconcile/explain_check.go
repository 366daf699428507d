package reconcile

import (
	"strconv"

	"pointsman/state"
)

// checked tells what is known of the endpoint's health.
func (x *backer) checked(e *state.Endpoint) *Checked {
	if e.Check == nil {
		return nil
	}
	out := &Checked{Probe: probeText(e.Check), Verdict: state.Unknown.String()}
	if x.verdicts == nil {
		return out
	}
	if j := x.verdicts.Get(e.Check.Key); j != nil {
		out.Verdict, out.Since, out.Held, out.votes = j.Verdict.String(), j.Since, j.Held, seenBy(j)
	}
	return out
}

// probeText says what is asked, where.
func probeText(c *state.Check) string {
	p := c.Probe
	if p == nil {
		return ""
	}
	text := "tcpSocket " + c.Target.String()
	switch {
	case p.HTTP != nil:
		text = "httpGet " + c.Target.String() + p.HTTP.Path
	case p.GRPC != nil:
		text = "grpc " + c.Target.String()
	case p.Exec != nil:
		text = "exec " + strconv.Quote(p.Exec[0])
	}
	return text + " every " + p.Period.String()
}
