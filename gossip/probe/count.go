package probe

import "pointsman/state"

// counter holds a verdict and how many probes in a row have spoken against it.
type counter struct {
	verdict state.Verdict
	against int
}

// after gives the counter after one more probe. rise and fall are how many in a
// row change the verdict to Up and to Down. A first success is trusted at once,
// as glb-director has it, since a host that starts would keep good backends
// from traffic otherwise. A first failure isn't: it may be this host's own.
func (c counter) after(ok bool, rise, fall int) counter {
	says, need := state.Down, fall
	if ok {
		says, need = state.Up, rise
		if c.verdict == state.Unknown {
			need = 1
		}
	}
	if says == c.verdict {
		return counter{verdict: c.verdict}
	}
	if c.against+1 >= need {
		return counter{verdict: says}
	}
	return counter{verdict: c.verdict, against: c.against + 1}
}

// suspects reports whether failures are being counted.
func (c counter) suspects() bool { return c.verdict != state.Down && c.against > 0 }
