package reconcile

import (
	"testing"
	"testing/synctest"
	"time"

	"pointsman/reconcile/nft"
)

func TestPulse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p pulse
		check := func(when string, want bool) {
			t.Helper()
			if got := p.stuck(time.Now()) == ""; got != want {
				t.Errorf("%s: %v", when, got)
			}
		}
		check("before the beginning", true)
		p.expect(10 * time.Second)
		time.Sleep(9 * time.Second)
		check("in time", true)
		time.Sleep(time.Second)
		check("late", false)
		p.expect(time.Minute)
		check("at work again", true)
	})
}

// stuckDesires hang once they are asked.
type stuckDesires struct {
	*fakeDesires
	asked, release chan struct{}
}

func (d stuckDesires) Latest() *Desired {
	close(d.asked)
	<-d.release
	return nil
}

// TestLoopStuck: a loop that hangs says nothing more, so its time runs out.
func TestLoopStuck(t *testing.T) {
	b := newLoop(t, nil)
	d := stuckDesires{b.desires, make(chan struct{}), make(chan struct{})}
	b.loop.desires = d
	b.start()
	t.Cleanup(func() { close(d.release) })
	<-d.asked
	later := time.Now().Add(3 * beatPeriod)
	if !b.loop.Alive(time.Now()) || b.loop.Alive(later) || b.loop.Health.Live(later).Healthy || b.loop.Health.Status(later).Healthy {
		t.Error("the loop hangs, and its time doesn't run out")
	}
}

// TestLoopSyncing: a sync is said to take no longer than nft may, and reading back.
func TestLoopSyncing(t *testing.T) {
	var b *loopBench
	left := make(chan time.Duration, 1)
	b = newLoop(t, func(c *Config) {
		c.Progress = func(nft.Family, int, int) {
			select {
			case left <- time.Until(*b.loop.alive.due.Load()):
			default:
			}
		}
	})
	b.desires.set(loopInput(2, 3))
	b.start()
	if got := <-left; got <= 0 || got > b.loop.timeout+readBackTime {
		t.Errorf("%v more", got)
	}
}

// TestLoopIdle: a loop with nothing to do shows that it turns.
func TestLoopIdle(t *testing.T) {
	b := startLoop(t, loopInput(2, 3))
	first := *b.loop.alive.due.Load()
	eventually(t, "a beat", func() bool { return b.loop.alive.due.Load().After(first.Add(beatPeriod / 2)) })
}
