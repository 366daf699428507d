package gitsync

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

// TestProgressReader: what is progress and what is not, however it comes in
// pieces.
func TestProgressReader(t *testing.T) {
	const said = "remote: Enumerating objects: 5, done.\n" +
		"remote: Enumerating objects: 12\rremote: Counting objects:  33% (1/3)\rremote: Counting objects: 100% (3/3), done.\n" +
		"Receiving objects:  45% (450/1000), 1.20 MiB | 1.10 MiB/s\rwarning: slow\n" +
		"remote: Counting \x1b[2J: 33% (1/3)\r\n" +
		"host key verification failed.\r\nfatal: the end"
	want := []string{"counting objects, 33 % (1 of 3)", "counting objects, 100 % (3 of 3)", "receiving objects, 45 % (450 of 1000)"}
	for name, pieces := range map[string]func(io.Reader) io.Reader{"whole": iotest.DataErrReader, "bytes": iotest.OneByteReader, "halves": iotest.HalfReader} {
		var rest strings.Builder
		var told []string
		r := &progressReader{rest: &rest, tell: func(text string) { told = append(told, text) }}
		if _, err := io.Copy(r, pieces(strings.NewReader(said))); err != nil {
			t.Fatal(err)
		}
		r.flush()
		if !slices.Equal(told, want) {
			t.Errorf("%s: %q", name, told)
		}
		if got := rest.String(); got != "remote: Enumerating objects: 5, done.\nwarning: slow\nremote: Counting \x1b[2J: 33% (1/3)\nhost key verification failed.\nfatal: the end\n" {
			t.Errorf("%s: what is left is %q", name, got)
		}
	}
}

// TestProgress: a sync tells what it does, and its errors are what they are
// without.
func TestProgress(t *testing.T) {
	w := newWorld(t, t.TempDir())
	var told []string
	w.cfg.Progress = func(text string) { told = append(told, text) }
	content := files{}
	for i := range 120 {
		content[fmt.Sprintf("%d.yaml", i)] = fmt.Sprint("a Service ", i)
	}
	w.commit(content)
	w.mustSync()
	all := strings.Join(told, "\n")
	for _, want := range []string{"fetching\n", "fetching: receiving objects, 100 % (", "writing 120 files\n", "judging 120 files"} {
		if !strings.Contains(all, want) {
			t.Errorf("nothing is said of %q:\n%s", want, all)
		}
	}
	w.cfg.Ref = "nowhere"
	if err := w.sync(); err == nil || err.Error() != "git fetch: couldn't find remote ref refs/heads/nowhere" {
		t.Error(err)
	}
}
