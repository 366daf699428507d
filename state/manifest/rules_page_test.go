package manifest

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

const rulesPage = "RULES.md"

// checkRulesPage: RULES.md is the rulebook and the rows of testdata/rules, for
// people.
func checkRulesPage(t *testing.T, rows map[Rule]row) {
	t.Helper()
	page := writeRulesPage(rows)
	if *update {
		if err := os.WriteFile(rulesPage, []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if readText(t, rulesPage) != page {
		t.Errorf("%s is not what the rulebook and testdata/rules say: run go test -run TestRules -update", rulesPage)
	}
}

const rulesIntro = `<!-- Made by go test -run TestRules -update: don't edit. -->

# What is checked of manifests

One line for each rule that ` + "`pointsman validate`" + ` and the agent check, then an
example of each. An error keeps the object, or the one thing that it claims,
from being served; a warning does not. Ids are stable.

Most rules are those of the Kubernetes 1.37 API server, with its field paths
and words, among them those of its allocators, which a host without an API
server does not have. The others are ours: what an API server need not check,
or leaves to a controller.

`

func writeRulesPage(rows map[Rule]row) string {
	var b strings.Builder
	b.WriteString(rulesIntro)
	b.WriteString("| rule | | what is found | who says so |\n|---|---|---|---|\n")
	for _, info := range Rules() {
		fmt.Fprintf(&b, "| [%s](#%s) | %s | %s | %s |\n", info.ID, info.ID, severityName(info.Severity), info.Says, info.Origin)
	}
	b.WriteString(`
## Examples

A comment says what is found in the line that follows it. Where nothing else is
said, the ranges are --service-cidr 10.96.0.0/16, --service-cidr fd00:96::/112
and --node-port-range 30000-32767. That an example has no Service or no
EndpointSlice is not told, but of the rules about that. Where it would be long,
an example is a Go template.
`)
	for _, info := range Rules() {
		fmt.Fprintf(&b, "\n### %s\n\n%s\n", info.ID, info.Says)
		writeExample(&b, rows[info.ID])
	}
	return b.String()
}

func writeExample(b *strings.Builder, r row) {
	if r.archive == nil {
		return
	}
	if note := strings.TrimSpace(string(r.archive.Comment)); note != "" {
		fmt.Fprintf(b, "%s\n", note)
	}
	single := len(r.archive.Files) == 1
	for _, f := range r.archive.Files {
		text := string(f.Data)
		switch {
		case f.Name == "want" && text == "":
			b.WriteString("\nNothing is found, and then:\n")
		case f.Name == "want":
			fmt.Fprintf(b, "\nWhat is found besides:\n\n```\n%s```\n", text)
		case text == "":
			fmt.Fprintf(b, "\n%s is empty.\n", f.Name)
		case single:
			fmt.Fprintf(b, "\n```yaml\n%s```\n", text)
		default:
			fmt.Fprintf(b, "\n%s:\n\n```yaml\n%s```\n", f.Name, text)
		}
	}
}
