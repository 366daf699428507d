package event

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestReasonsAreGiven: each reason that README tells of is some log record's.
func TestReasonsAreGiven(t *testing.T) {
	given, use := map[string]bool{}, regexp.MustCompile(`\bevent\.([A-Z]\w+)`)
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range use.FindAllSubmatch(text, -1) {
			given[string(m[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range Reasons() {
		if !given[string(m.Reason)] {
			t.Errorf("nothing gives %s", m.Reason)
		}
	}
}
