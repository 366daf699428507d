package manifest

import (
	"os"
	"path/filepath"
	"testing"
)

func mustDo(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// writeFile writes a file and the directories it is in.
func writeFile(tb testing.TB, path, data string) {
	tb.Helper()
	mustDo(tb, os.MkdirAll(filepath.Dir(path), 0o755))
	mustDo(tb, os.WriteFile(path, []byte(data), 0o644))
}

// swapLink makes a link lead elsewhere in one step, as git-sync, the kubelet
// and mv -T do.
func swapLink(tb testing.TB, target, link string) {
	tb.Helper()
	mustDo(tb, os.Symlink(target, link+".new"))
	mustDo(tb, os.Rename(link+".new", link))
}
