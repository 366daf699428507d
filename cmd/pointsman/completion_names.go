package main

import (
	"context"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
)

// typingPatience is how long somebody who types waits for an agent.
const typingPatience = time.Second

// agentNames asks the agent that the line means for names of a kind. A line may
// name another socket, or another configuration.
func agentNames(c *cli.Context, l *line, kind string) []candidate {
	for _, flag := range c.Command.Flags {
		name := flag.Names()[0]
		if value, given := l.given[name]; given && c.Set(name, value) != nil {
			return nil
		}
	}
	// What isn't a file may have no end, or keep who types waiting.
	if f, err := os.Stat(c.String("config")); err == nil && !f.Mode().IsRegular() || loadConfig(c) != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(c.Context, typingPatience)
	defer cancel()
	ns := c.String("namespace")
	if kind != "services-or-names" {
		return askNames(ctx, c.String("socket"), nameQuery{kind: kind, prefix: l.word})
	}
	// A Service is either web, of one namespace or of any, or shop/web.
	if ns == "" {
		if full := askNames(ctx, c.String("socket"), nameQuery{kind: "services", prefix: l.word}); len(full) > 0 {
			return full
		}
	}
	return askNames(ctx, c.String("socket"), nameQuery{kind: "service-names", namespace: ns, prefix: l.word})
}

type nameQuery struct{ kind, namespace, prefix string }

func askNames(ctx context.Context, socket string, q nameQuery) []candidate {
	var answer namesAnswer
	query := url.Values{"kind": {q.kind}, "namespace": {q.namespace}, "prefix": {q.prefix}}
	if err := ask(ctx, socket, "/v1/names?"+query.Encode(), &answer); err != nil {
		return nil
	}
	var all []candidate
	for _, n := range answer.Names {
		if harmless(n.Name) {
			all = append(all, candidate{n.Name, n.About})
		}
	}
	return all
}

// harmless reports whether a name means nothing else to a shell: bash puts it on
// the line as it is, and what nodes are called is heard from others. Brackets
// around an address match no file that is likely to be there.
func harmless(name string) bool {
	return name != "" && name[0] != '-' && strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.:/[]_-") == ""
}

// flagValues is what a flag's value may be: one of its choices, a name that the
// agent knows, or a file.
func flagValues(f cli.DocGenerationFlag, names namer) offer {
	if c, ok := f.(*choiceFlag); ok {
		return someOf(candidates(c.choices...))
	}
	if kind := map[string]string{"namespace": "namespaces", "service": "services", "node-name": "nodes"}[f.Names()[0]]; kind != "" {
		return someOf(names(kind))
	}
	switch word, _ := placeholder(f.GetUsage()); word {
	case "FILE":
		return someFile
	case "DIR":
		return someDirectory
	}
	return someOf(nil)
}
