package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"pointsman/reconcile/lab"
)

// unitService is pointsman.service on a node.
type unitService struct {
	*daemon
	host *unitHost
	unit unit
	env  []string
}

// start starts it (again).
func (s *unitService) start() {
	s.t.Helper()
	s.Process = s.host.exec(s.unit, "ExecStart", s.env...)
}

// heard waits until systemd was told something n times.
func (s *unitService) heard(prefix string, n int) {
	s.t.Helper()
	eventually(s.t, func() error {
		if got := s.host.count(prefix); got < n {
			s.host.mu.Lock()
			defer s.host.mu.Unlock()
			return fmt.Errorf("told %s %d times: %q\n%s", prefix, got, s.host.told, s.Output())
		}
		return nil
	})
}

// newUnitService prepares a node of a world.
func newUnitService(t *testing.T, node *lab.Host) *unitService {
	t.Helper()
	return &unitService{
		daemon: &daemon{t: t, node: node}, host: newUnitHost(t, node),
		unit: installedUnit(t, "pointsman.service"),
	}
}

// telling is an exec probe that tells what it may do.
const telling = `"pointsman/readiness-probe": '{exec: {command: [sh, -c, "
	exec >/var/lib/pointsman/$POINTSMAN_ADDRESS.new 2>&1; cd /var/lib/pointsman; grep ^Cap /proc/self/status; nft list tables; touch /etc/pointsman/x; mv $POINTSMAN_ADDRESS.new $POINTSMAN_ADDRESS"]},
	periodSeconds: 1}'`

// TestServiceAlone: as installed, without keyring and sync, the first manifests
// coming later than the agent.
func TestServiceAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	w.serve(8080)
	s := newUnitService(t, w.Nodes[0])
	w.manifests = filepath.Join(s.host.dir, "etc/manifests")
	s.host.write("etc/config.yaml", "manifests: /etc/pointsman/manifests\nallow-exec-probes: true\n")
	if err := os.Chmod(filepath.Join(s.host.dir, "etc"), 0o777); err != nil { // so that it's the disk that forbids it
		t.Fatal(err)
	}
	s.host.journald()
	s.start()
	s.heard("EXTEND_TIMEOUT_USEC=", 2)
	if s.host.count("READY=1") > 0 {
		t.Error("ready, and nothing is served")
	}
	w.write("web.yaml", service("web", "clusterIP: 10.96.0.20, "+http80, telling), slice("web/1", http8080, "10.20.0.11", "10.20.0.12"))
	s.heard("READY=1", 1)
	check(t, row{from: w.Client, to: "10.96.0.20:80", by: "b1 b2"})
	s.heard("WATCHDOG=1", 2)
	s.heard("STATUS=serving 1 Service with 2 endpoints", 1)
	if err := s.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	s.heard("RELOADING=1\nMONOTONIC_USEC=", 1)
	s.heard("READY=1", 2)
	s.reloads()
	s.unprivileged("10.20.0.11")
	s.end(syscall.SIGTERM)
	s.heard("STOPPING=1", 1)
	s.journaled()
	check(t, row{name: "stopped", from: w.Client, to: "10.96.0.20:80", by: "b1 b2"})
	s.start()
	s.heard("READY=1", 3)
	if n := s.metric("pointsman_nftables_elements_written_total"); n != 0 {
		t.Errorf("a restart wrote %v elements", n)
	}
}

// reloads checks that a reload waits until the manifests were read, and fails if
// they can't be.
func (s *unitService) reloads() {
	s.t.Helper()
	there := filepath.Join(s.host.dir, "etc/manifests")
	if err := os.Rename(there, there+"-away"); err != nil {
		s.t.Fatal(err)
	}
	if err := s.host.exec(s.unit, "ExecReload", s.env...).Wait(); err == nil {
		s.t.Error("a reload without a directory is said to have worked")
	}
	if err := os.Rename(there+"-away", there); err != nil {
		s.t.Fatal(err)
	}
	if err := s.host.exec(s.unit, "ExecReload", s.env...).Wait(); err != nil {
		s.t.Error("reload:", err)
	}
}

// journaled checks that what was logged is in the journal, and can be asked for by
// its fields.
func (s *unitService) journaled() {
	s.t.Helper()
	for fields, want := range map[string]string{
		"POINTSMAN_REASON=ManifestsLoaded POINTSMAN_SERVICES=1": "manifests loaded (files=1 services=1 stale=0 ",
		"POINTSMAN_REASON=Stopped PRIORITY=6":                   "pointsman stopped; the rules stay in place",
		"POINTSMAN_REASON=LastStateKept PRIORITY=3":             "nothing was served before, so the kernel stays as it is (why=",
	} {
		if out := s.host.journal(strings.Fields(fields)...); !strings.Contains(out, " pointsman[") || !strings.Contains(out, want) {
			s.t.Errorf("%s: no %q in\n%s", fields, want, out)
		}
	}
	if out := s.Output(); out != "" {
		s.t.Errorf("not in the journal:\n%s", out)
	}
}

// unprivileged waits for an address to be probed, and checks that the probe has
// nothing of the agent's capability, which it would share with all children, and
// that the disk is read-only.
func (s *unitService) unprivileged(address string) {
	s.t.Helper()
	var told []byte
	eventually(s.t, func() (err error) {
		told, err = os.ReadFile(filepath.Join(s.host.dir, "lib/pointsman", address))
		return err
	})
	for _, want := range []string{"CapPrm:\t0000000000000000", "CapEff:\t0000000000000000", "CapAmb:\t0000000000000000", "Operation not permitted", "Read-only file system"} {
		if !strings.Contains(string(told), want) {
			s.t.Errorf("a probe isn't without privileges: no %q in\n%s", want, told)
		}
	}
}

// TestServiceFleet: with a keyring, given as the example says, and with what
// pointsman sync publishes; and a drain by the shutdown's unit, which outlives a
// restart of the agent.
func TestServiceFleet(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	w.serve(8080)
	s := newUnitService(t, w.Nodes[0])
	w.write("web.yaml", service("web", "clusterIP: 10.96.0.20, "+http80), slice("web/1", http8080, "10.20.0.11", "10.20.0.12"))
	s.synced(w)
	dropIn := readUnit(t, filepath.Join("../../systemd/examples", "keyring.conf"))
	name, _, _ := strings.Cut(dropIn.one(t, "LoadCredential"), ":")
	s.host.write("credentials/pointsman.service/"+name, sh(t, s.node, "pointsman keygen"))
	s.env = []string{
		strings.ReplaceAll(dropIn.one(t, "Environment"), "%d", "/run/credentials/pointsman.service"),
		"POINTSMAN_GOSSIP_BIND=" + s.node.Addr4().String(), "POINTSMAN_NODE_NAME=n1",
	}
	s.start()
	s.heard("READY=1", 1)
	check(t, row{from: w.Client, to: "10.96.0.20:80", by: "b1 b2"})
	if err := s.host.exec(installedUnit(t, "pointsman-drain.service"), "ExecStop").Wait(); err != nil {
		t.Fatal(err)
	}
	drained := func() error {
		code, h, err := s.health()
		if err == nil && (code != http.StatusServiceUnavailable || !h.Drained) {
			err = fmt.Errorf("%d %+v", code, h)
		}
		return err
	}
	eventually(t, drained)
	s.end(syscall.SIGTERM)
	s.shareSocket()
	s.start()
	s.heard("READY=1", 2)
	eventually(t, drained)
	check(t, row{name: "drained", from: w.Client, to: "10.96.0.20:80", by: "b1 b2"})
	info := must[os.FileInfo](t)(os.Stat(filepath.Join(s.host.dir, "run/pointsman.sock")))
	if gid := info.Sys().(*syscall.Stat_t).Gid; gid != circle {
		t.Errorf("the socket is the group %d's", gid)
	}
	if err := s.host.exec(installedUnit(t, "pointsman-drain.service"), "ExecStart").Wait(); err != nil {
		t.Error("the drain doesn't end without a boot:", err)
	}
	s.healthy()
}

// shareSocket lets another group change something, as the example says.
func (s *unitService) shareSocket() {
	s.t.Helper()
	dropIn := readUnit(s.t, filepath.Join("../../systemd/examples", "socket-group.conf"))
	group := fmt.Sprint(circle)
	s.unit["SystemCallFilter"] = append(s.unit["SystemCallFilter"], dropIn.one(s.t, "SystemCallFilter"))
	s.unit["SupplementaryGroups"] = []string{strings.ReplaceAll(dropIn.one(s.t, "SupplementaryGroups"), "ops", group)}
	s.env = append(s.env, strings.ReplaceAll(dropIn.one(s.t, "Environment"), "=ops", "="+group))
}

// synced commits the world's manifests to a repository on the host, and has
// pointsman-sync.service publish them.
func (s *unitService) synced(w *world) {
	s.t.Helper()
	u := installedUnit(s.t, "pointsman-sync.service")
	repo := filepath.Join(s.host.dir, "lib/repo")
	sh(s.t, s.node, fmt.Sprintf(`mkdir %s && cd %[1]s && cp %s/*.yaml . && git init -q -b main && git add . &&
		git -c user.name=a -c user.email=a@b commit -q -m first && chown -R %s .`, repo, w.manifests, userID(s.t, u)))
	if p := s.host.exec(u, "ExecStart", "POINTSMAN_REPO=/var/lib/repo"); p.Wait() != nil {
		s.t.Fatalf("sync: %v\n%s", p.Wait(), p.Output())
	}
}
