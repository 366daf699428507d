package state

import (
	"fmt"
	"testing"
)

// TestStatusFailure: each status that has a number of its own in gossip, which has
// six bits for it, is told; the others are bad all the same.
func TestStatusFailure(t *testing.T) {
	of := map[Failure]int{}
	for status := range 1000 {
		f := StatusFailure(status)
		want := "bad HTTP status"
		if own := 400 <= status && status <= 431 || 500 <= status && status <= 511; own {
			want = fmt.Sprintf("HTTP status %d", status)
			if of[f] != 0 || f <= OtherFailure || f >= 1<<6 {
				t.Errorf("%d is %d, as is %d", status, f, of[f])
			}
			of[f] = status
		}
		if f.String() != want {
			t.Errorf("%d: %s", status, f)
		}
	}
	for f := serverError + 12; f < 1<<6; f++ {
		if f.String() != "failed" {
			t.Errorf("%d, of a later release: %s", f, f)
		}
	}
}
