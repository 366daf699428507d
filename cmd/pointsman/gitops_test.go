package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// shown is a command of a page, with what the page says it prints.
type shown struct{ command, prints string }

// commands gives the commands of a page: they follow "    $ ", and what they
// print follows them.
func commands(page string) []shown {
	var out []shown
	printing := false
	for line := range strings.Lines(page) {
		text, indented := strings.CutPrefix(line, "    ")
		command, isCommand := strings.CutPrefix(text, "$ ")
		switch {
		case isCommand && indented:
			out = append(out, shown{command: strings.TrimSpace(command)})
		case indented && printing:
			out[len(out)-1].prints += text
		}
		printing = indented && (isCommand || printing)
	}
	return out
}

// TestGitopsPage runs the page's commands one after the other. Only the places
// are others, and sudo isn't needed.
func TestGitopsPage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../examples/gitops/README.md")
	if err != nil {
		t.Fatal(err)
	}
	examples := must[string](t)(filepath.Abs("../../examples"))
	dir := t.TempDir()
	if err := os.Symlink(examples, filepath.Join(dir, "examples")); err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{"/srv/git", "/etc/pointsman"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	here := strings.NewReplacer("sudo -u pointsman-sync ", "", "sudo ", "", "/srv/git", dir+"/srv/git", "/etc/pointsman", dir+"/etc/pointsman", "/var/lib/pointsman-sync", dir+"/sync")
	env := append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "POINTSMAN_DEST="+dir+"/sync")
	all := commands(string(page))
	if len(all) < 30 {
		t.Fatalf("the page has %d commands", len(all))
	}
	_, config, _ := strings.Cut(string(page), "```yaml\n")
	config, _, _ = strings.Cut(config, "```")
	if err := os.WriteFile(filepath.Join(dir, "config.yaml"), []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	all = append(all, shown{command: "pointsman validate --strict --config config.yaml fleet/manifests"})
	for _, x := range all {
		cmd := exec.Command("sh", "-c", here.Replace(x.command))
		var stdout, stderr strings.Builder
		cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = dir, env, &stdout, &stderr
		err := cmd.Run()
		out := stdout.String()
		if err != nil {
			out += stderr.String() // else it's what hooks have to say
		}
		if got, want := general(out), here.Replace(x.prints); got != want {
			t.Fatalf("$ %s\n%s%v\nthe page says:\n%s", x.command, got, err, want)
		}
		if refused := strings.Contains(x.prints, "pointsman: "); refused != (err != nil) {
			t.Errorf("$ %s: %v", x.command, err)
		}
	}
}

var (
	commitName = regexp.MustCompile(`\b([0-9a-f]{40}|[0-9a-f]{12})\b`)
	publicKey  = regexp.MustCompile(`AAAA[A-Za-z0-9+/=]+`)
)

// general puts words where each run has other names.
func general(text string) string {
	return publicKey.ReplaceAllString(commitName.ReplaceAllString(text, "COMMIT"), "KEY")
}
