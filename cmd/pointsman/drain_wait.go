package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"pointsman/reconcile"
	"pointsman/state"
)

// waiter waits until nothing is left of the connections to what was drained.
type waiter struct {
	target string
	grace  time.Duration
	look   func(context.Context) (*leftAnswer, error)
	out    progress
}

func newWaiter(socket, target string, grace time.Duration, out io.Writer) *waiter {
	w := &waiter{target: target, grace: grace, out: progress{w: out, terminal: isTerminal(out)}}
	w.look = func(ctx context.Context) (*leftAnswer, error) {
		var answer leftAnswer
		return &answer, ask(ctx, socket, "/v1/left?target="+url.QueryEscape(target), &answer)
	}
	return w
}

// lookEvery is how often all hosts are asked.
const lookEvery = 2 * time.Second

// newsTime is what a drain takes to get round.
const newsTime = 500 * time.Millisecond

// wait comes back without an error if nothing is left, on all hosts that are
// alive, at two looks in a row: a connection that began just before the first may
// not have been tracked yet. That the agent doesn't answer for a while (it's
// upgraded, say) is no reason to give up.
func (w *waiter) wait(ctx context.Context) error {
	began := time.Now()
	bound := time.NewTimer(w.grace)
	defer bound.Stop()
	twice := false
	for next := newsTime; ; next = lookEvery {
		select {
		case <-ctx.Done():
		case <-time.After(next):
		case <-bound.C:
			return w.overdue(ctx)
		}
		a, err := w.look(ctx)
		switch s := sumUp(a); {
		case ctx.Err() != nil:
			return w.end(nil, "%s stays drained; pointsman undrain %[1]s ends that", w.target)
		case err != nil:
			twice = false
			w.out.show(err.Error(), time.Now())
		case !a.Drained:
			return w.end(nil, "%s was undrained meanwhile; %s", w.target, s.left())
		case s.done() && twice:
			w.out.say(fmt.Sprintf("no connection is left, after %v", time.Since(began).Round(time.Second)))
			w.out.say(s.deadText())
			return nil
		default:
			if twice = s.done(); !twice || w.out.terminal { // else it's about to be said
				w.out.show(s.text(), time.Now())
			}
		}
	}
}

// flowsTake is the time after the grace in which UDP flows go elsewhere.
const flowsTake = 2 * time.Second

// overdue says what is left at the end. UDP flows alone are a moment from being gone.
func (w *waiter) overdue(ctx context.Context) error {
	a, err := w.look(ctx)
	for end := time.Now().Add(flowsTake); err == nil && sumUp(a).areFlows() && time.Now().Before(end) && ctx.Err() == nil; {
		waitFor(ctx, time.After(newsTime))
		a, err = w.look(ctx)
	}
	if err != nil {
		return w.end(nil, "it isn't known what is left after %v: %w; %s stays drained", w.grace, err, w.target)
	}
	s := sumUp(a)
	if s.done() {
		w.out.say("no connection is left, after " + w.grace.String())
		w.out.say(s.deadText())
		return nil
	}
	return w.end(a, "%s after %v; %s stays drained", s.left(), w.grace, w.target)
}

// end tells all that is known of what is left.
func (w *waiter) end(a *leftAnswer, format string, args ...any) error {
	w.out.clear()
	if a != nil {
		for _, line := range sumUp(a).details() {
			fmt.Fprintln(w.out.w, " ", line)
		}
	}
	return fmt.Errorf(format, args...)
}

// leftSum is an answer summed up.
type leftSum struct {
	connections int
	hosts       []hostLeft // with some, the most first

	kept, late, silent, dead []string // hosts
}

func sumUp(a *leftAnswer) *leftSum {
	s := &leftSum{}
	if a == nil {
		return s
	}
	for _, h := range a.Hosts {
		s.connections += h.Connections
		switch {
		case h.Dead:
			s.dead = append(s.dead, h.Node)
		case h.Silent:
			s.silent = append(s.silent, h.Node)
		case !h.Drained:
			s.late = append(s.late, h.Node)
		case h.Kept:
			s.kept = append(s.kept, h.Node)
		}
		if h.Connections > 0 {
			s.hosts = append(s.hosts, h)
		}
	}
	slices.SortStableFunc(s.hosts, func(a, b hostLeft) int { return cmp.Compare(b.Connections, a.Connections) })
	return s
}

// done reports whether nothing is left, as far as can be known: nobody knows of
// dead hosts.
func (s *leftSum) done() bool { return s.connections == 0 && len(s.late)+len(s.silent) == 0 }

// areFlows reports whether all that is left are flows of UDP, as far as they are
// listed.
func (s *leftSum) areFlows() bool {
	return s.connections > 0 && !slices.ContainsFunc(s.hosts, func(h hostLeft) bool {
		return len(h.To) == 0 || slices.ContainsFunc(h.To, func(to reconcile.RemainingTo) bool { return to.Protocol != state.UDP })
	})
}

// maxShown bounds the hosts and clients that are listed.
const maxShown = 20

// left gives the number of connections, as a sentence.
func (s *leftSum) left() string {
	switch {
	case s.connections == 1:
		return "1 connection is left"
	case s.connections > 1:
		return fmt.Sprintf("%d connections are left", s.connections)
	case len(s.late)+len(s.silent) > 0:
		return "no connection is left that is known of"
	}
	return "no connection is left"
}

// text is what there is to be seen while it's waited.
func (s *leftSum) text() string {
	text := s.left()
	for i, h := range s.hosts {
		if i == 5 {
			text += fmt.Sprintf(" and %d more hosts", len(s.hosts)-i)
			break
		}
		text += fmt.Sprintf("%s %d on %s", [...]string{":", ","}[min(i, 1)], h.Connections, h.Node)
	}
	return strings.Join(append([]string{text}, s.notes()...), "; ")
}

// notes say why the number is not all there is to it.
func (s *leftSum) notes() []string {
	var notes []string
	for _, n := range []struct {
		hosts []string
		text  string
	}{
		{s.late, "not drained there yet"},
		{s.silent, "not known: no answer (an earlier release, or out of reach)"},
		{s.kept, "new ones still go to what is drained, where no other endpoint may have them (all are drained, or the policy is Local)"},
	} {
		if len(n.hosts) > 0 {
			notes = append(notes, shortList(n.hosts)+": "+n.text)
		}
	}
	return notes
}

func (s *leftSum) deadText() string {
	if len(s.dead) == 0 {
		return ""
	}
	return shortList(s.dead) + ": dead, so nothing is known of connections by way of it"
}

// details list what is left.
func (s *leftSum) details() []string {
	var lines []string
	listed := 0
	for _, h := range s.hosts {
		for _, to := range h.To {
			if len(lines) == maxShown {
				break
			}
			listed += to.Connections
			lines = append(lines, fmt.Sprintf("%d by way of %s to %s from %s", to.Connections, h.Node, endpointText(to), to.Client))
		}
	}
	if rest := s.connections - listed; rest > 0 && listed > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", rest))
	}
	lines = append(lines, s.notes()...)
	if dead := s.deadText(); dead != "" {
		lines = append(lines, dead)
	}
	return lines
}

func endpointText(to reconcile.RemainingTo) string {
	return fmt.Sprintf("%s/%s", to.Endpoint, to.Protocol)
}

// progress shows how a thing that takes long gets on: on a terminal in one line,
// which is written anew; elsewhere in a line for each change, at times.
type progress struct {
	w        io.Writer
	terminal bool
	last     string
	at       time.Time
}

// progressEvery is the least time between two lines of a log.
const progressEvery = 5 * time.Second

func (p *progress) show(text string, now time.Time) {
	switch {
	case p.terminal:
		fmt.Fprintf(p.w, "\r%s\x1b[K", fitting(text, widthOf(p.w)))
	case text != p.last && now.Sub(p.at) >= progressEvery:
		p.last, p.at = text, now
		fmt.Fprintln(p.w, "pointsman:", text)
	}
}

// clear takes the line away.
func (p *progress) clear() {
	if p.terminal {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}

// say writes a line that stays.
func (p *progress) say(text string) {
	if text != "" {
		p.clear()
		fmt.Fprintln(p.w, "pointsman:", text)
	}
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}
