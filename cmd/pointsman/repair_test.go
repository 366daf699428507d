package main

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"pointsman/reconcile/lab"
	"pointsman/state/event"
)

// tenPerSecond is the pace of the clients in the background.
const tenPerSecond = 100 * time.Millisecond

// damages are what others do to our tables.
var damages = []struct{ name, command string }{
	{"everything flushed", "nft flush ruleset"},
	{"the table deleted", "nft delete table ip pointsman"},
	{"a chain flushed", "nft flush chain ip pointsman nat-prerouting"},
	{"a rule deleted", `nft delete rule ip pointsman nat-prerouting handle $(nft -a list chain ip pointsman nat-prerouting | sed -n 's/.*jump dispatch # handle //p')`},
	{"a rule replaced", `nft replace rule ip pointsman nat-prerouting handle $(nft -a list chain ip pointsman nat-prerouting | sed -n 's/.*jump dispatch # handle //p') drop`},
	{"a rule inserted", "nft insert rule ip pointsman nat-prerouting counter return"},
	{"a foreign chain", "nft 'add chain ip pointsman foreign { type filter hook prerouting priority -300; }; add rule ip pointsman foreign drop'"},
	{"a map flushed", "nft flush map ip pointsman services"},
	{"an element deleted", "nft delete element ip pointsman services '{ 10.96.0.20 . tcp . 80 }'"},
	{"an element added", "nft add element ip pointsman services '{ 10.96.0.66 . tcp . 80 : drop }'"},
	{"the table made dormant", "nft 'add table ip pointsman { flags dormant; }'"},
}

// TestC49OthersChangeOurRules: whatever somebody does to our tables is undone
// within a second or so, and established connections don't notice.
func TestC49OthersChangeOurRules(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.serve(8080)
	w.simple("web", "10.96.0.20", "10.20.0.11")
	n1, c := w.agent(w.Nodes[0]), w.Client
	web := row{from: c, to: "10.96.0.20:80", by: "b1"}
	open := must[*lab.Conn](t)(c.Dial(t.Context(), lab.TCP, addrPort(web.to), 0))
	defer open.Close()
	right := rules(t, n1.node)
	for i, d := range damages {
		before := n1.metric("pointsman_nftables_drift_total")
		sh(t, n1.node, d.command)
		took := eventually(t, func() error {
			if now := rules(t, n1.node); now != right {
				return fmt.Errorf("%s:\n%s\nwant\n%s", d.name, now, right)
			}
			return nil
		})
		t.Logf("%s: repaired after %s", d.name, took)
		check(t, row{name: d.name, from: c, to: web.to, by: "b1"})
		if got := open.Ask(fmt.Sprint("still there ", i), deadline); got.Outcome != lab.OK {
			t.Errorf("%s: the connection that was open: %s", d.name, got)
		}
		eventually(t, func() error {
			if n1.metric("pointsman_nftables_drift_total") == before {
				return fmt.Errorf("%s: not counted", d.name)
			}
			return nil
		})
	}
	n1.said("somebody else changed our rules")
	told := n1.happened(event.DriftRepaired, "changed by nft (pid ")
	n1.end(syscall.SIGTERM)
	for _, d := range damages {
		if d.name == "a rule replaced" {
			sh(t, n1.node, d.command)
		}
	}
	n1.start()
	n1.healthy()
	n1.said("other rules than were written in chain nat-prerouting")
	check(t, row{name: "a rule replaced while no agent ran", from: c, to: web.to, by: "b1"})
	if now := rules(t, n1.node); now != right {
		t.Errorf("a rule replaced while no agent ran:\n%s\nwant\n%s", now, right)
	}
	n1.restart(syscall.SIGTERM)
	if strings.Contains(n1.Output(), "rewritten=true") {
		t.Errorf("rules are written anew where nothing is wrong:\n%s", n1.Output())
	}
	if e := told; e.Process != "nft" || e.Type != event.Warning || e.Count < len(damages) {
		t.Errorf("%+v", e)
	}
}

// TestC49Traffic: ten connections a second through five flushes; they fail
// while there are no rules, and never after.
func TestC49Traffic(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.serve(8080)
	w.simple("web", "10.96.0.20", "10.20.0.11")
	n1 := w.agent(w.Nodes[0])
	s := w.Client.Stream(t.Context(), lab.TCP, addrPort("10.96.0.20:80"), tenPerSecond)
	for i := range 5 {
		sh(t, n1.node, "nft flush ruleset")
		took := await(t, row{from: w.Client, to: "10.96.0.20:80", by: "b1"})
		failed := len(s.Now().Failed)
		if err := s.Wait(t.Context(), 5); err != nil {
			t.Fatal(err)
		}
		// One that began without rules may end, by its patience, after the repair.
		if now := s.Now(); len(now.Failed) > failed+1 {
			t.Errorf("flush %d: %d connections failed after the repair, the last one: %s", i, len(now.Failed)-failed, now.Failed[len(now.Failed)-1])
		}
		t.Logf("flush %d: traffic flows after %s", i, took)
	}
	tally := s.Stop()
	t.Logf("%d of %d connections failed in all", len(tally.Failed), tally.Total)
}

// rules lists our tables, sorted, without what a connection changes.
func rules(t *testing.T, h *lab.Host) string {
	t.Helper()
	return sh(t, h, "{ nft list table ip pointsman; nft list table ip6 pointsman; } 2>&1 | tr ',' '\\n' | sed '/expires/d; s/^[ \\t]*//; /^$/d' | sort")
}

// TestC47CrashingNft: nft crashes on whatever it is to list, as an old one
// does on sets that a newer one has made. Nothing of ours is ever listed by it.
func TestC47CrashingNft(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	w.serve(8080)
	w.simple("web", "10.96.0.20", "10.20.0.11")
	foreign := "table ip foreign {\nset odd { typeof ip saddr . @th,0,16; flags interval; elements = { 192.0.2.9 . 7 } }\n" +
		"map counted { type ipv4_addr : verdict; counter; elements = { 192.0.2.9 counter packets 0 bytes 0 : drop } }\n" +
		"chain c { type filter hook input priority 0; ip saddr vmap @counted; }\n}"
	sh(t, w.Nodes[0], "nft '"+foreign+"'")
	before := sh(t, w.Nodes[0], "nft list table ip foreign")
	n1 := w.agent(w.Nodes[0], stubNft(t, `case " $* " in *" list "*|*" -j "*) kill -SEGV $$;; esac`))
	check(t, row{from: w.Client, to: "10.96.0.20:80", by: "b1"})
	w.simple("web", "10.96.0.20", "10.20.0.12")
	await(t, row{from: w.Client, to: "10.96.0.20:80", by: "b2"})
	sh(t, n1.node, "nft flush table ip pointsman")
	n1.said("repair=true")
	check(t, row{from: w.Client, to: "10.96.0.20:80", by: "b2"})
	n1.restart(9)
	check(t, row{from: w.Client, to: "10.96.0.20:80", by: "b2"})
	if after := sh(t, n1.node, "nft list table ip foreign"); after != before {
		t.Errorf("the foreign table was\n%s\nand is\n%s", before, after)
	}
}
