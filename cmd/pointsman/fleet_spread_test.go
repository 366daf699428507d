package main

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"
)

// TestFleetSpread: what one host is told, all know. The times are from the
// command's end to the last host, on a machine that all of them share.
func TestFleetSpread(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, 0, 0, 0, 0)
	w.write("web.yaml", service("web", "clusterIP: 10.96.0.20, "+http80), slice("web/v4", http8080, "10.20.0.11"))
	agents := w.fleet()
	knows := func(a *daemon, target string) error {
		var answer drainsAnswer
		if err := ask(t.Context(), a.socket(), "/v1/drains", &answer); err != nil {
			return err
		}
		if !slices.ContainsFunc(answer.Drains, func(d drainAnswer) bool { return d.Target == target }) {
			return fmt.Errorf("%s doesn't know of %s", a, target)
		}
		return nil
	}
	var all []time.Duration
	for i := range 40 {
		from, target := agents[i%len(agents)], fmt.Sprintf("endpoint 10.20.9.%d", i+1)
		q := drainRequest{Target: target, For: time.Hour, Force: true}
		if err := call(t.Context(), from.socket(), http.MethodPost, "/v1/drain", &q, &drainReply{}); err != nil {
			t.Fatal(err)
		}
		took := eventually(t, func() error {
			for _, a := range agents {
				if err := knows(a, target); err != nil {
					return err
				}
			}
			return nil
		})
		all = append(all, took)
	}
	slices.Sort(all)
	t.Logf("from one host to all five: median %v, 99%% %v, max %v", all[len(all)/2], all[len(all)*99/100], all[len(all)-1])
}
