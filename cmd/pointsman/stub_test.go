package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// stubNft gives a directory with an nft that runs a shell script first; $nft is
// the real one.
func stubNft(t *testing.T, script string) (dir string) {
	t.Helper()
	nft := must[string](t)(exec.LookPath("nft"))
	dir = t.TempDir()
	text := "#!/bin/sh\nnft=" + nft + "\n" + script + "\nexec $nft \"$@\"\n"
	if err := os.WriteFile(filepath.Join(dir, "nft"), []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}
