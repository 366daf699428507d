package main

import "testing"

func TestAmbientSet(t *testing.T) {
	for text, want := range map[string]uint64{
		"Name:\tpointsman\nCapBnd:\t0000000000001000\nCapAmb:\t0000000000001000\nNoNewPrivs:\t1\n": 1 << 12,
		"Name:\tpointsman\nCapAmb:\t0000000000000000\n":                                            0,
		"Name:\tpointsman\nCapBnd:\t0000000000001000\n":                                            0, // before Linux 4.3
	} {
		if got, err := ambientSet(text); err != nil || got != want {
			t.Errorf("%q: %x, %v", text, got, err)
		}
	}
	if _, err := ambientSet("Name:\tx\nCapAmb:\tnothing\n"); err == nil {
		t.Error("no number, and no error")
	}
}
