package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"pointsman/reconcile/lab"
)

// sandbox starts a command as systemd would start it, with what the unit says
// of its user, capabilities, memory and disk. (systemd itself wants a machine of
// its own.) Its arguments: what is installed, the host's directories, the ones
// of them that the service may write, and the command.
const sandbox = `set -e
installed=$0 host=$1 writable=" $2 "; shift 2
mount -t overlay overlay -o lowerdir="$installed/usr/local":/usr/local /usr/local
mount -t overlay overlay -o lowerdir="$installed/etc":/etc /etc
mount -t overlay overlay -o lowerdir="$host/lib":/var/lib /var/lib
mount --bind "$host/etc" /etc/pointsman
mount --bind "$host/lib/pointsman-sync" /var/lib/pointsman-sync
mount -t tmpfs tmpfs /run
mkdir -p /run/pointsman /run/credentials /run/systemd/journal
mount --bind "$host/journal" /run/systemd/journal
mount --bind "$host/credentials" /run/credentials
mount --bind "$host/run" /run/pointsman
mount --bind "$host/lib/pointsman" /var/lib/pointsman
mount -t tmpfs tmpfs /tmp
mount --bind /proc/sys /proc/sys
while read -r _ _ _ _ at _; do
	case $at in
	/tmp | /dev | /dev/* | /proc) ;;
	*) [ "${writable#* $at }" != "$writable" ] ||
		[ ! -e "$at" ] || mount -o remount,bind,ro "$at" ;; # others are below /run and /tmp as they were
	esac
done </proc/self/mountinfo
cd /
exec "$@"`

// journald starts systemd's, with a directory of ours for its sockets and
// one for what it writes.
const journald = `set -e
mount -t overlay overlay -o lowerdir="$0/machine":/etc /etc
mount -t tmpfs tmpfs /run
mkdir -p /run/systemd/journal /run/log/journal
mount --bind "$0/journal" /run/systemd/journal
mount --bind "$0/log" /run/log/journal
exec /lib/systemd/systemd-journald`

// intoJournal runs a command whose standard error systemd would have connected to
// the journal.
const intoJournal = `export JOURNAL_STREAM=$(stat -Lc %d:%i /proc/self/fd/2); exec "$0" "$@"`

// unitHost is a host's directories of ours, and systemd's ear.
type unitHost struct {
	t      *testing.T
	node   *lab.Host
	dir    string // etc, run, lib, credentials, and those of the journal
	logged bool   // in the journal

	mu   sync.Mutex
	told []string
}

// newUnitHost prepares a node as make install and systemd-sysusers do.
func newUnitHost(t *testing.T, node *lab.Host) *unitHost {
	t.Helper()
	h := &unitHost{t: t, node: node, dir: t.TempDir()}
	for _, d := range []string{"etc/manifests", "run", "lib/pointsman", "lib/pointsman-sync", "credentials/pointsman.service", "journal", "log", "machine"} {
		if err := os.MkdirAll(filepath.Join(h.dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	config := must[[]byte](t)(os.ReadFile(filepath.Join(must[string](t)(installed()), "etc/pointsman/config.yaml")))
	h.write("etc/config.yaml", string(config))
	conn := must[*net.UnixConn](t)(net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(h.dir, "run/notify"), Net: "unixgram"}))
	if err := os.Chmod(filepath.Join(h.dir, "run/notify"), 0o777); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	go h.listen(conn)
	return h
}

func (h *unitHost) write(name, text string) {
	h.t.Helper()
	if err := os.WriteFile(filepath.Join(h.dir, name), []byte(text), 0o644); err != nil {
		h.t.Fatal(err)
	}
}

// journald has what services log written to a journal.
func (h *unitHost) journald() {
	h.t.Helper()
	h.logged = true
	h.write("machine/machine-id", "3d1219c7c4c5404aaa1f6d2a48adfda4\n")
	// Not on the node: ip netns exec hides the cgroups, without which it doesn't start.
	cmd := exec.CommandContext(h.t.Context(), "unshare", "--mount", "sh", "-c", journald, h.dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { _ = cmd.Wait() }) // it's killed, by the context
	eventually(h.t, func() error {
		conn, err := (&net.Dialer{}).DialContext(h.t.Context(), "unixgram", filepath.Join(h.dir, "journal/socket"))
		if err == nil {
			conn.Close()
		}
		return err
	})
}

// journal waits until the journal has a record of some fields, and gives it as
// journalctl shows it.
func (h *unitHost) journal(fields ...string) (out string) {
	h.t.Helper()
	eventually(h.t, func() (err error) {
		out, err = h.node.Run(h.t.Context(), "journalctl", append([]string{"-q", "-o", "short", "-D", filepath.Join(h.dir, "log")}, fields...)...)
		if err == nil && out == "" {
			err = fmt.Errorf("nothing of %q in the journal", fields)
		}
		return err
	})
	return out
}

// listen keeps what is told until the test ends.
func (h *unitHost) listen(conn *net.UnixConn) {
	buf := make([]byte, 4096)
	for {
		n, err := conn.Read(buf)
		if err != nil {
			return
		}
		h.mu.Lock()
		h.told = append(h.told, string(buf[:n]))
		h.mu.Unlock()
	}
}

// count counts the messages that begin with a text.
func (h *unitHost) count(prefix string) (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, m := range h.told {
		if strings.HasPrefix(m, prefix) {
			n++
		}
	}
	return n
}

// exec starts one of a unit's commands on the node. A drop-in's environment is
// given beside the unit's.
func (h *unitHost) exec(u unit, setting string, env ...string) *lab.Process {
	h.t.Helper()
	uid := userID(h.t, u)
	writable := h.directories(u, must[int](h.t)(strconv.Atoi(uid)))
	// What systemd counts in a cgroup, the agent and its nft together, is each
	// one's own limit here; TestServiceMemory adds them up.
	args := []string{"--mount", "sh", "-c", sandbox, must[string](h.t)(installed()), h.dir, writable,
		"prlimit", "--data=" + strconv.FormatInt(u.bytes(h.t, "MemoryMax"), 10)}
	groups := "--clear-groups"
	if more := u["SupplementaryGroups"]; len(more) > 0 {
		groups = "--groups=" + more[0]
	}
	args = append(args, "setpriv", "--reuid="+uid, "--regid="+uid, groups,
		"--bounding-set="+capabilities(u.one(h.t, "CapabilityBoundingSet")))
	if ambient := u["AmbientCapabilities"]; len(ambient) > 0 {
		args = append(args, "--inh-caps="+capabilities(ambient[0]), "--ambient-caps="+capabilities(ambient[0]))
	}
	if u.one(h.t, "NoNewPrivileges") == "yes" {
		args = append(args, "--no-new-privs")
	}
	args = append(args, "env", "-i", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "NOTIFY_SOCKET=/run/pointsman/notify")
	if watchdog := u["WatchdogSec"]; len(watchdog) > 0 {
		args = append(args, "WATCHDOG_USEC="+watchdog[0]+"000000")
	}
	args = append(append(args, u["Environment"]...), env...)
	if h.logged {
		args = append(args, "sh", "-c", intoJournal)
	}
	args = append(args, h.filtered(u)...)
	command := strings.Fields(strings.TrimPrefix(u[setting][0], "-"))
	return must[*lab.Process](h.t)(h.node.Start("unshare", append(args, command...)...))
}

// directories gives a unit's user what the unit says is its own: the places, as
// the service sees them.
func (h *unitHost) directories(u unit, uid int) string {
	h.t.Helper()
	var places []string
	own := []string{"credentials/pointsman.service"}
	for _, d := range u["StateDirectory"] {
		own, places = append(own, "lib/"+d), append(places, "/var/lib/"+d)
	}
	for _, d := range u["RuntimeDirectory"] {
		own, places = append(own, "run"), append(places, "/run/"+d)
	}
	for _, d := range own {
		if err := os.Chown(filepath.Join(h.dir, d), uid, uid); err != nil {
			h.t.Fatal(err)
		}
	}
	return strings.Join(places, " ")
}

// capabilities gives systemd's list as setpriv wants it.
func capabilities(list string) string {
	out := "-all"
	for _, c := range strings.Fields(list) {
		out += ",+" + strings.ToLower(strings.TrimPrefix(c, "CAP_"))
	}
	return out
}
