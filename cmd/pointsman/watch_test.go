package main

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// revision writes a directory of manifests whose only Service has one backend.
func revision(t *testing.T, dir, backend string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	text := service("web", "clusterIP: 10.96.0.20, "+http80) + "\n---\n" + slice("web/1", http8080, backend)
	if err := os.WriteFile(filepath.Join(dir, "web.yaml"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// link replaces a symbolic link as git-sync does.
func link(t *testing.T, target, path string) {
	t.Helper()
	if err := os.Symlink(target, path+".tmp"); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".tmp", path); err != nil {
		t.Fatal(err)
	}
}

// backendOf are the backends behind n1, in turn.
func backendOf(i int) (address, name string) {
	return fmt.Sprintf("10.20.0.%d", 11+i%2), fmt.Sprintf("b%d", 1+i%2)
}

// TestC58SymlinkFlips: the directory is a link, or below one, to a checkout
// that is replaced, and then removed.
func TestC58SymlinkFlips(t *testing.T) {
	t.Parallel()
	for _, below := range []string{"", "services"} {
		w := newWorld(t, 2)
		w.serve(8080)
		current := filepath.Join(w.dir, "current")
		rev := func(i int) string { return filepath.Join(w.dir, fmt.Sprintf("rev-%d", i)) }
		address, name := backendOf(0)
		revision(t, filepath.Join(rev(0), below), address)
		link(t, "rev-0", current)
		w.manifests = filepath.Join(current, below)
		n1 := w.agent(w.Nodes[0])
		check(t, row{name: "before " + below, from: w.Client, to: "10.96.0.20:80", by: name})
		var slowest time.Duration
		for i := 1; i <= 5; i++ {
			address, name = backendOf(i)
			revision(t, filepath.Join(rev(i), below), address)
			link(t, filepath.Base(rev(i)), current)
			if err := os.RemoveAll(rev(i - 1)); err != nil {
				t.Fatal(err)
			}
			slowest = max(slowest, await(t, row{from: w.Client, to: "10.96.0.20:80", by: name}))
		}
		t.Logf("the slowest flip took effect after %s", slowest)
		n1.Kill()
		_ = w.Close()
	}
}

// TestC59WaysToSave: a mounted ConfigMap's double links, editors, and the
// directory replaced as a whole are changes; chmod and touch are none, and
// editors' leftovers are no manifests.
func TestC59WaysToSave(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	w.serve(8080)
	in := func(name string) string { return filepath.Join(w.manifests, name) }
	first, _ := backendOf(0)
	revision(t, in("..2025_0"), first)
	link(t, "..2025_0", in("..data"))
	link(t, "..data/web.yaml", in("web.yaml"))
	n1 := w.agent(w.Nodes[0])
	check(t, row{from: w.Client, to: "10.96.0.20:80", by: "b1"})
	for i, save := range []func(address string) error{
		func(a string) error { // ConfigMap
			revision(t, in("..2025_1"), a)
			link(t, "..2025_1", in("..data"))
			return os.RemoveAll(in("..2025_0"))
		},
		func(a string) error { // editor
			revision(t, w.dir, a)
			return os.Rename(filepath.Join(w.dir, "web.yaml"), in("web.yaml"))
		},
		func(a string) error { // in place
			revision(t, w.manifests, a)
			return nil
		},
		func(a string) error { // the directory
			revision(t, filepath.Join(w.dir, "new"), a)
			if err := os.Rename(w.manifests, filepath.Join(w.dir, "old")); err != nil {
				return err
			}
			return os.Rename(filepath.Join(w.dir, "new"), w.manifests)
		},
	} {
		address, name := backendOf(i + 1)
		if err := save(address); err != nil {
			t.Fatal(err)
		}
		await(t, row{from: w.Client, to: "10.96.0.20:80", by: name})
		quiet(t, w, n1)
	}
}

// quiet checks that what changes no content is no change, and that SIGHUP,
// which reads everything, finds none either.
func quiet(t *testing.T, w *world, n1 *daemon) {
	t.Helper()
	before := n1.metric("pointsman_nftables_elements_written_total")
	web := filepath.Join(w.manifests, "web.yaml")
	now := time.Now()
	for _, err := range []error{
		os.Chmod(web, 0o600), os.Chtimes(web, now, now), n1.Signal(syscall.SIGHUP),
		os.WriteFile(filepath.Join(w.manifests, ".web.yaml.swp"), []byte("{"), 0o644),
		os.WriteFile(web+"~", []byte("kind: ["), 0o644), os.WriteFile(web+".bak", []byte("{"), 0o644),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	// The marker is written after them, so it's read after them.
	w.simple("marker", "10.96.0.99", "10.20.0.11")
	await(t, row{from: w.Client, to: "10.96.0.99:80", by: "b1"})
	w.remove("marker.yaml")
	await(t, row{from: w.Client, to: "10.96.0.99:80", want: "unreachable"})
	const marker = 8 // two elements of the frontend and one of its address, each way, and two spare
	if n := n1.metric("pointsman_nftables_elements_written_total") - before; n > marker {
		t.Errorf("%v elements were written for the marker alone", n)
	}
	if n := n1.metric("pointsman_manifests_problems"); n != 0 {
		t.Errorf("%v problems", n)
	}
}

// TestSIGHUP: the directory is read at once when asked for, also where no event
// tells of a change.
func TestSIGHUP(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.serve(8080)
	w.simple("web", "10.96.0.20", "10.20.0.11")
	n1 := w.agent(w.Nodes[0])
	if err := os.Rename(w.manifests, w.manifests+"-away"); err != nil {
		t.Fatal(err)
	}
	n1.degraded("no such file")
	if err := os.Rename(w.manifests+"-away", w.manifests); err != nil {
		t.Fatal(err)
	}
	if err := n1.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		if _, h, err := n1.health(); err != nil || len(h.Degraded) > 0 {
			return fmt.Errorf("%v %q", err, h.Degraded)
		}
		return nil
	})
	check(t, row{from: w.Client, to: "10.96.0.20:80", by: "b1"})
}
