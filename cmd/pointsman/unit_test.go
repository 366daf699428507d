package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// unit is a unit file: the values of its settings, by name, in order.
type unit map[string][]string

func readUnit(t *testing.T, path string) unit {
	t.Helper()
	u := unit{}
	for line := range strings.Lines(string(must[[]byte](t)(os.ReadFile(path)))) {
		key, value, ok := strings.Cut(strings.TrimSpace(line), "=")
		if !ok || strings.HasPrefix(key, "#") {
			continue
		}
		u[key] = append(u[key], value)
	}
	return u
}

// installedUnit reads one of the units that are installed.
func installedUnit(t *testing.T, name string) unit {
	t.Helper()
	return readUnit(t, filepath.Join(must[string](t)(installed()), unitDir, name))
}

// one gives the last value of a setting, which is the one in force.
func (u unit) one(t *testing.T, key string) string {
	t.Helper()
	if len(u[key]) == 0 {
		t.Fatalf("the unit has no %s", key)
	}
	return u[key][len(u[key])-1]
}

// bytes gives a size, which systemd counts in powers of 1024.
func (u unit) bytes(t *testing.T, key string) int64 {
	t.Helper()
	text := u.one(t, key)
	shift, ok := map[byte]int{'M': 20, 'G': 30}[text[len(text)-1]]
	if !ok {
		t.Fatalf("%s=%s: no size", key, text)
	}
	return must[int64](t)(strconv.ParseInt(text[:len(text)-1], 10, 64)) << shift
}

// installed is what make install makes, once for all tests.
var installed = sync.OnceValues(func() (dir string, err error) {
	binary, err := exec.LookPath("pointsman")
	if err != nil {
		return "", err
	}
	dir = filepath.Join(filepath.Dir(binary), "installed") // which goes with the binary
	out, err := exec.Command("make", "-C", "../..", "install", "DESTDIR="+dir).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("make install: %w\n%s", err, out)
	}
	return dir, nil
})

const unitDir = "usr/local/lib/systemd/system"

var services = []string{"pointsman.service", "pointsman-drain.service", "pointsman-sync.service"}

// TestUnitsVerify: systemd has nothing to say against what is installed.
func TestUnitsVerify(t *testing.T) {
	t.Parallel()
	root := must[string](t)(installed())
	script := `mount -t overlay overlay -o lowerdir="$0/usr/local":/usr/local /usr/local && exec systemd-analyze verify --man=no "$@"`
	args := append([]string{"--mount", "sh", "-c", script, root}, append(services, "pointsman-sync.timer")...)
	out, err := exec.Command("unshare", args...).CombinedOutput()
	if err != nil || len(out) > 0 {
		t.Errorf("%v: %s", err, out)
	}
}

// TestUnitsExposure: what systemd-analyze makes of the sandboxes.
func TestUnitsExposure(t *testing.T) {
	t.Parallel()
	const most = 2.0
	root := must[string](t)(installed())
	level := regexp.MustCompile(`Overall exposure level for \S+: ([0-9.]+)`)
	for _, name := range services {
		out, err := exec.Command("systemd-analyze", "security", "--offline=true", filepath.Join(root, unitDir, name)).CombinedOutput()
		m := level.FindSubmatch(out)
		if err != nil || m == nil {
			t.Fatalf("%v: %s", err, out)
		}
		got := must[float64](t)(strconv.ParseFloat(string(m[1]), 64))
		t.Logf("%s: %.1f", name, got)
		if got > most {
			t.Errorf("%s: %.1f is above %.1f\n%s", name, got, most, out)
		}
	}
}

// TestDrainUnitOrder: the drain is made before the agent and the network stop,
// and by nothing but the end of the host.
func TestDrainUnitOrder(t *testing.T) {
	t.Parallel()
	u := installedUnit(t, "pointsman-drain.service")
	after := strings.Fields(u.one(t, "After"))
	for _, what := range []string{"pointsman.service", "network.target"} {
		if !strings.Contains(" "+strings.Join(after, " ")+" ", " "+what+" ") {
			t.Errorf("it isn't stopped before %s", what)
		}
	}
	for _, bond := range []string{"Requires", "BindsTo", "PartOf", "Requisite", "StopPropagatedFrom", "DefaultDependencies"} {
		if len(u[bond]) > 0 {
			t.Errorf("%s=%s: who restarts the agent would drain the host", bond, u[bond])
		}
	}
}

// TestInstall: what is under /etc is the operator's: a second make install
// leaves it as it is, and make uninstall leaves nothing else.
func TestInstall(t *testing.T) {
	t.Parallel()
	root := must[string](t)(installed())
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(root)); err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(dir, "etc/pointsman/config.yaml")
	if err := os.WriteFile(config, []byte("zone: a\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, target := range []string{"install", "uninstall"} {
		if out, err := exec.Command("make", "-C", "../..", "-o", "build", target, "DESTDIR="+dir).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	if text := must[[]byte](t)(os.ReadFile(config)); string(text) != "zone: a\n" {
		t.Errorf("the configuration is %q", text)
	}
	err := filepath.WalkDir(filepath.Join(dir, "usr"), func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			t.Errorf("%s is left", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// userID makes a unit's user as systemd-sysusers would, somewhere else, and
// gives its id.
func userID(t *testing.T, u unit) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "etc"), 0o755); err != nil {
		t.Fatal(err)
	}
	conf := filepath.Join(must[string](t)(installed()), "usr/local/lib/sysusers.d/pointsman.conf")
	cmd := exec.Command("systemd-sysusers", "--root="+dir, conf)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	passwd := string(must[[]byte](t)(os.ReadFile(filepath.Join(dir, "etc/passwd"))))
	m := regexp.MustCompile(`(?m)^` + u.one(t, "User") + `:x:(\d+):`).FindStringSubmatch(passwd)
	if m == nil {
		t.Fatalf("no user %s in\n%s", u.one(t, "User"), passwd)
	}
	return m[1]
}
