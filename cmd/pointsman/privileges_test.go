package main

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func TestAmbientSet(t *testing.T) {
	for text, want := range map[string]uint64{
		"Name:\tpointsman\nCapBnd:\t0000000000001000\nCapAmb:\t0000000000001000\nNoNewPrivs:\t1\n": 1 << 12,
		"Name:\tpointsman\nCapAmb:\t0000000000000000\n":                                            0,
		"Name:\tpointsman\nCapBnd:\t0000000000001000\n":                                            0, // before Linux 4.3
	} {
		if got, err := ambientSet(text); err != nil || got != want {
			t.Errorf("%q: %x, %v", text, got, err)
		}
	}
	if _, err := ambientSet("Name:\tx\nCapAmb:\tnothing\n"); err == nil {
		t.Error("no number, and no error")
	}
}

// TestFileCapability: who has CAP_NET_ADMIN by the program's file (setcap
// cap_net_admin+ep) hands it on to nft, too, though nothing inheritable was given.
func TestFileCapability(t *testing.T) {
	t.Parallel()
	const uid = 64123 // nobody's
	w := newWorld(t, 1)
	w.serve(8080)
	w.write("web.yaml", service("web", "clusterIP: 10.96.0.20, "+http80), slice("web/1", http8080, "10.20.0.11"))
	a := w.daemon(w.Nodes[0], "n1", filepath.Join(w.dir, "state"))
	for _, err := range []error{os.Chmod(filepath.Dir(w.dir), 0o755), os.Mkdir(a.state, 0o750), os.Chown(a.state, uid, uid)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	program := filepath.Join(w.dir, "pointsman")
	text := must[[]byte](t)(os.ReadFile(filepath.Join(must[string](t)(installed()), "usr/local/bin/pointsman")))
	if err := os.WriteFile(program, text, 0o755); err != nil {
		t.Fatal(err)
	}
	// struct vfs_cap_data of the second version, with the effective bit.
	capability := binary.LittleEndian.AppendUint32(nil, 0x02000001)
	for _, word := range []uint32{1 << unix.CAP_NET_ADMIN, 0, 0, 0} { // permitted, inheritable, and both of the upper half
		capability = binary.LittleEndian.AppendUint32(capability, word)
	}
	if err := unix.Setxattr(program, "security.capability", capability, 0); err != nil {
		t.Fatal(err)
	}
	a.args[1] = program
	a.args = append([]string{"setpriv", fmt.Sprint("--reuid=", uid), fmt.Sprint("--regid=", uid), "--clear-groups", "env"}, a.args...)
	a.start()
	a.healthy()
	check(t, row{from: w.Client, to: "10.96.0.20:80", by: "b1"})
}
