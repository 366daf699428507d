package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pointsman/reconcile/nft"
	"pointsman/state/manifest"
)

func TestMissingElements(t *testing.T) {
	group := func(keys ...string) *nft.Group {
		var all []nft.Element
		for _, k := range keys {
			key, value, _ := strings.Cut(k, "=")
			all = append(all, nft.Element{Set: "services", Key: key, Value: value})
		}
		return nft.NewGroup(all)
	}
	same := group("a=1", "b=2")
	for _, c := range []struct {
		name           string
		groups, others map[string]*nft.Group
		want           int
	}{
		{"none", nil, nil, 0},
		{"the same value", map[string]*nft.Group{"x": same}, map[string]*nft.Group{"x": same}, 0},
		{"an equal one", map[string]*nft.Group{"x": group("b=2", "a=1")}, map[string]*nft.Group{"x": same}, 0},
		{"a group more", map[string]*nft.Group{"x": same, "y": group("c")}, map[string]*nft.Group{"x": same}, 1},
		{"a group less", map[string]*nft.Group{"x": same}, map[string]*nft.Group{"x": same, "y": group("c")}, 0},
		{"another value", map[string]*nft.Group{"x": group("a=3", "b=2")}, map[string]*nft.Group{"x": same}, 1},
	} {
		if got := missing(c.groups, c.others); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

// What manifests say is text to whoever reads the pull request, and no markup.
func TestPlanMarkdownIsText(t *testing.T) {
	p := &planAnswer{Node: "n1", Changes: true, Services: []serviceChange{{Name: "shop/web", Change: "changed",
		Fields: []fieldChange{{"clusterIPs", "a|b", "<img src=x>"}}}}}
	p.Problems = []jsonProblem{{Severity: "error", File: "web.yaml", Line: 3, Message: "@everyone [click](http://x) `sh` *now*\n> # quoted"}}
	text := p.markdown()
	for _, line := range strings.Split(text, "\n") {
		if strings.HasPrefix(line, "| changed") && strings.Count(strings.ReplaceAll(line, `\|`, ""), "|") != 4 {
			t.Errorf("another table: %s", line)
		}
	}
	for _, markup := range []string{"<img", "@everyone", "[click", "`sh`", " *now", "\n> # quoted"} {
		if markup = strings.TrimPrefix(markup, " "); strings.Contains(strings.ReplaceAll(strings.ReplaceAll(text, `\`+"`", ""), `\`+markup[:1], ""), markup) {
			t.Errorf("%q is in\n%s", markup, text)
		}
	}
}

// A plan tells what the ledger of an agent would decide, whatever it compares
// with.
func TestPlanJudgesAsTheAgentDoes(t *testing.T) {
	for _, after := range []struct {
		services []int
		approval string
	}{{upTo(40), ""}, {upTo(30), ""}, {upTo(20), ""}, {nil, ""}, {upTo(20), "to: %s"}, {upTo(45), ""}} {
		l, m, full, _ := holding(t)
		state := m.state(after.services, 0, "")
		if after.approval != "" {
			state = m.state(after.services, 0, fmt.Sprintf(after.approval, hashOf(state)))
		}
		b := &basis{node: "n1", served: full, state: l.state, past: l.past}
		p := b.compare(state, commitZ)
		b.judge(p, state, thirty)
		if held := !l.offer(state, commitZ, noon); held != (p.Held != nil) || p.Approved != (after.approval != "") {
			t.Errorf("%d Services: held %v, planned %+v, approved %v", len(after.services), held, p.Held, p.Approved)
		}
	}
}

// What the agent tells of what it serves means the same to who asks.
func TestServedDocumentsMeanTheSame(t *testing.T) {
	full := newTellers().state(upTo(12), 0, "")
	var text strings.Builder
	if _, err := full.Documents().WriteTo(&text); err != nil {
		t.Fatal(err)
	}
	cfg := manifest.Config{NodePortFirst: 30000, NodePortLast: 32767}
	b := &basis{node: "n1", loader: manifest.Resume([]byte(text.String()), cfg)}
	b.served = b.loader.Restore()
	if hashOf(b.served) != hashOf(full) {
		t.Errorf("%s, want %s", hashOf(b.served), hashOf(full))
	}
	if p := b.compare(full, ""); len(p.Services) > 0 {
		t.Errorf("%+v", p.Services)
	}
	damaged := manifest.Resume([]byte(text.String()[1:]), cfg).Restore()
	if len(damaged.Services) > 0 || !slices.ContainsFunc(damaged.Problems, func(p manifest.Problem) bool { return strings.Contains(p.Message, "damaged") }) {
		t.Errorf("damaged documents are read: %d Services, %v", len(damaged.Services), damaged.Problems)
	}
}
