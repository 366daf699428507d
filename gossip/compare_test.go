package gossip

import (
	"testing"
	"time"
)

func TestComparison(t *testing.T) {
	c := comparison{pace: pace{time.Second, time.Second, 30 * time.Second}}
	at := func(seconds float64) time.Time { return today.Add(time.Duration(seconds * float64(time.Second))) }
	for _, step := range []struct {
		equal bool
		at    float64
		want  bool
	}{
		{false, 0, false}, {false, 0.5, false}, {true, 0.9, false}, {false, 1, false}, // it was gossip's business
		{false, 2, true}, {false, 3, false}, {false, 4, true}, // fruitless: each wait is twice as long
		{false, 6, false}, {false, 8, true}, {true, 9, false}, {false, 20, false}, {false, 21, true},
	} {
		if got := c.seen(step.equal, at(step.at)); got != step.want {
			t.Errorf("at %v: %v", step.at, got)
		}
	}
	for s := 30.0; s < 1000; s++ {
		c.seen(false, at(s))
	}
	if c.wait != 30*time.Second {
		t.Error("waits for", c.wait)
	}
	if c.brought(); c.wait != 0 {
		t.Error("news don't shorten the wait")
	}
}
