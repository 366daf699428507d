package main

import "testing"

func TestMeant(t *testing.T) {
	names := []string{"get", "status", "services", "sync", "man"}
	for word, want := range map[string]string{
		"statsu": "status", "serivces": "services", "service": "services", "snyc": "sync", "gett": "get", "stauts": "status", "mna": "man", "srevicse": "services",
		"frobnicate": "", "pets": "", "x": "", "": "", "status": "status", "seeeeeervices": "",
	} {
		if want != "" {
			want = " (" + want + "?)"
		}
		if got := meant(word, names); got != want {
			t.Errorf("%s: %q", word, got)
		}
	}
}
