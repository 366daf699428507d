package manifest

import (
	"flag"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the expectations anew")

// testConfig is the Config that a file of testdata is decoded with.
func testConfig(name string) Config {
	cfg := Config{NodePortFirst: 30000, NodePortLast: 32767}
	if name == "service-cidr.yaml" {
		cfg.ServiceCIDRs = []netip.Prefix{netip.MustParsePrefix("10.96.0.0/16")}
	}
	return cfg
}

// The files of testdata/validate have what just passes next to what does not;
// the smallest example of each rule is in testdata/rules. They say in comments
// what is wrong with the line that follows, and nothing else may be found:
//
//	# error: spec.ports[0].port: Invalid value: 70000: must be between 1 and 65535, inclusive
//	- port: 70000
func TestValidate(t *testing.T) {
	files, err := filepath.Glob("testdata/validate/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, path := range files {
		name := filepath.Base(path)
		t.Run(name, func(t *testing.T) {
			text := readText(t, path)
			if *update {
				text = annotate(name, text)
				if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			got := found(name, text)
			want := expected(text)
			for line := range strings.Count(text, "\n") + 1 {
				if !slices.Equal(got[line], want[line]) {
					t.Errorf("line %d:\n got %q\nwant %q", line, got[line], want[line])
				}
			}
		})
	}
}

func readText(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// found gives the problems of a file by line, as comments.
func found(name, text string) map[int][]string {
	lines := map[int][]string{}
	for _, o := range Decode(&File{Path: name, Data: []byte(text)}, testConfig(name)) {
		for _, p := range o.Problems {
			lines[p.Source.Line] = append(lines[p.Source.Line], commentOf(p))
		}
	}
	for line := range lines {
		slices.Sort(lines[line])
	}
	return lines
}

func commentOf(p Problem) string {
	return fmt.Sprintf("# %s: %s: %s", severityName(p.Severity), p.Field, p.Message)
}

func severityName(s Severity) string {
	if s == Warning {
		return "warning"
	}
	return "error"
}

// expected gives the comments of a file by the line that they are about.
func expected(text string) map[int][]string {
	lines := map[int][]string{}
	var comments []string
	for i, line := range strings.Split(text, "\n") {
		if comment := strings.TrimSpace(line); isExpectation(comment) {
			comments = append(comments, comment)
			continue
		}
		if len(comments) > 0 {
			slices.Sort(comments)
			lines[i+1] = comments
			comments = nil
		}
	}
	return lines
}

func isExpectation(comment string) bool {
	return strings.HasPrefix(comment, "# error: ") || strings.HasPrefix(comment, "# warning: ")
}

// annotate writes the comments of a file anew.
func annotate(name, text string) string {
	return withComments(text, found(name, text))
}

// withComments replaces the comments of a text by those about its lines. That
// moves the lines, so where comments name lines it has to be done twice.
func withComments(text string, comments map[int][]string) string {
	var b strings.Builder
	for i, line := range strings.Split(text, "\n") {
		bare := strings.TrimLeft(line, " ")
		if isExpectation(bare) {
			continue
		}
		for _, comment := range comments[i+1] {
			b.WriteString(line[:len(line)-len(bare)] + comment + "\n")
		}
		b.WriteString(line + "\n")
	}
	return strings.TrimSuffix(b.String(), "\n")
}
