package main

import (
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
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
mkdir /run/pointsman /run/credentials
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

// unitHost is a host's directories of ours, and systemd's ear.
type unitHost struct {
	t    *testing.T
	node *lab.Host
	dir  string // etc, run, lib and credentials

	mu   sync.Mutex
	told []string
}

// newUnitHost prepares a node as make install and systemd-sysusers do.
func newUnitHost(t *testing.T, node *lab.Host) *unitHost {
	t.Helper()
	h := &unitHost{t: t, node: node, dir: t.TempDir()}
	for _, d := range []string{"etc/manifests", "run", "lib/pointsman", "lib/pointsman-sync", "credentials/pointsman.service"} {
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
	args = append(args, "setpriv", "--reuid="+uid, "--regid="+uid, "--clear-groups",
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
