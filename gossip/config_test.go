package gossip

import (
	"bytes"
	"encoding/base64"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/memberlist"
)

func TestParseBind(t *testing.T) {
	for s, want := range map[string]string{
		"192.0.2.1":          "192.0.2.1:7946",
		"192.0.2.1:17946":    "192.0.2.1:17946",
		"2001:db8::1":        "[2001:db8::1]:7946",
		"[2001:db8::1]":      "[2001:db8::1]:7946",
		"[2001:db8::1]:1":    "[2001:db8::1]:1",
		"::ffff:192.0.2.1":   "192.0.2.1:7946",
		"0.0.0.0":            "",
		"0.0.0.0:7946":       "",
		"::":                 "",
		"[::]:7946":          "",
		"":                   "",
		"n1.example:7946":    "",
		"10.0.0.5x":          "",
		"fe80::1%eth0":       "",
		"224.0.0.1":          "",
		"192.0.2.1:0":        "",
		"192.0.2.1:70000":    "",
		"192.0.2.1, 1.2.3.4": "",
	} {
		got, err := ParseBind(s)
		if (err == nil) != (want != "") || err == nil && got.String() != want {
			t.Errorf("%q: %v, %v, want %q", s, got, err, want)
		}
	}
}

func TestSplitJoin(t *testing.T) {
	for s, want := range map[string]string{
		"n1.example": "n1.example:7", "n1.example:9": "n1.example:9", "10.0.0.1": "10.0.0.1:7", "10.0.0.1:9": "10.0.0.1:9",
		"2001:db8::1": "2001:db8::1:7", "[2001:db8::1]:9": "2001:db8::1:9",
		"": "", "n1:": "", "n1:x": "", "n1:0": "", "a/10.0.0.1": "", "[n1]": "", ":9": "",
	} {
		host, port, err := splitJoin(s, 7)
		if got := host + ":" + string(rune('0'+port)); (err == nil) != (want != "") || err == nil && got != want {
			t.Errorf("%q: %s, %v, want %q", s, got, err, want)
		}
	}
}

func goodConfig() ClusterConfig {
	return ClusterConfig{NodeName: "n1", Bind: netip.MustParseAddrPort("127.0.0.1:7946")}
}

func TestNewClusterRefuses(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, []byte("# none yet\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*ClusterConfig){
		"no name":              func(c *ClusterConfig) { c.NodeName = "" },
		"a long name":          func(c *ClusterConfig) { c.NodeName = strings.Repeat("n", 254) },
		"a long fleet":         func(c *ClusterConfig) { c.Fleet = strings.Repeat("f", 65) },
		"all addresses":        func(c *ClusterConfig) { c.Bind = netip.MustParseAddrPort("0.0.0.0:7946") },
		"advertise all":        func(c *ClusterConfig) { c.Advertise = netip.IPv6Unspecified() },
		"no keyring":           func(c *ClusterConfig) { c.Bind = netip.MustParseAddrPort("192.0.2.1:7946") },
		"a keyring that isn't": func(c *ClusterConfig) { c.KeyringFile = filepath.Join(t.TempDir(), "none") },
		"an empty keyring":     func(c *ClusterConfig) { c.KeyringFile, c.Insecure = empty, true },
		"join":                 func(c *ClusterConfig) { c.Join = []string{"a b"} },
	} {
		c := goodConfig()
		spoil(&c)
		if _, err := NewCluster(c); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	if _, err := NewCluster(goodConfig()); err != nil {
		t.Error(err)
	}
}

func key(b byte) []byte { return bytes.Repeat([]byte{b}, keySize) }

func keyringText(keys ...[]byte) string {
	text := "# keys\n\n"
	for _, k := range keys {
		text += base64.StdEncoding.EncodeToString(k) + "\n"
	}
	return text
}

func TestParseKeyring(t *testing.T) {
	keys, err := parseKeyring([]byte(keyringText(key(1), key(2))))
	if err != nil || !slices.EqualFunc(keys, [][]byte{key(1), key(2)}, bytes.Equal) {
		t.Error(keys, err)
	}
	many := keyringText(slices.Repeat([][]byte{key(1)}, maxKeys+1)...)
	for _, bad := range []string{"", "# nothing\n", "not base64\n", keyringText(key(1)[:16]), many, strings.Repeat("A", 100000)} {
		if _, err := parseKeyring([]byte(bad)); err == nil {
			t.Errorf("%.40q is accepted", bad)
		}
		if _, err := parseKeyring([]byte(bad)); err != nil && strings.Contains(err.Error(), "not base64") {
			t.Error("the error shows what may be a secret:", err)
		}
	}
}

// Whatever the steps from one keyring to the next, the ring ends as the file.
func TestInstallKeys(t *testing.T) {
	for _, steps := range [][]string{
		{"1", "12", "21", "2"}, {"1", "2"}, {"123", "321", "3"}, {"1234", "42", "24"}, {"12", "13", "3"}, {"321", "1"},
	} {
		ring, err := memberlist.NewKeyring(nil, key(steps[0][0]))
		if err != nil {
			t.Fatal(err)
		}
		for _, step := range steps {
			var keys [][]byte
			for _, b := range []byte(step) {
				keys = append(keys, key(b))
			}
			if err := install(ring, keys); err != nil {
				t.Errorf("%v at %s: %v", steps, step, err)
			}
			if got := ring.GetKeys(); len(got) != len(keys) || !bytes.Equal(got[0], keys[0]) {
				t.Errorf("%v at %s: %v", steps, step, got)
			}
		}
	}
}

func TestKeyringFileAtRunTime(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keyring")
	write := func(text string) { // as all files of an image, of one time
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, time.Time{}, time.Unix(1, 0)); err != nil {
			t.Fatal(err)
		}
	}
	write(keyringText(key(1)))
	f, err := openKeyring(path)
	if err != nil {
		t.Fatal(err)
	}
	poll := func(what string, changes, good bool) {
		t.Helper()
		if changed, err := f.poll(); changed != changes || (err == nil) != good {
			t.Errorf("%s: changed %v, %v", what, changed, err)
		}
	}
	poll("the same", false, true)
	write(keyringText(key(3)))
	poll("one of the same size and time", true, true)
	write("")
	poll("empty", false, false)
	poll("still empty", false, false)
	if n := len(f.ring.GetKeys()); n != 1 {
		t.Error(n, "keys: the ring of before isn't kept")
	}
	write(keyringText(key(2), key(1)))
	poll("another", true, true)
	poll("the same again", false, true)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	poll("gone", false, false)
	if got := f.ring.GetKeys(); len(got) != 2 || !bytes.Equal(got[0], key(2)) {
		t.Error(got)
	}
}

func TestDisk(t *testing.T) {
	d := disk{t.TempDir()}
	if n, err := d.incarnation(); n != 0 || err != nil {
		t.Error(n, err)
	}
	if err := os.WriteFile(filepath.Join(d.dir, incarnationFile+unfinished), []byte("123456"), 0o600); err != nil {
		t.Fatal(err) // a process that was killed leaves it
	}
	if err := d.saveIncarnation(42); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(d.dir); len(left) != 1 || err != nil {
		t.Error("left over:", left, err)
	}
	if n, err := d.incarnation(); n != 42 || err != nil {
		t.Error(n, err)
	}
	all := drainMap{}
	for _, drain := range exampleDrains() {
		all.merge(drain, today)
	}
	if err := d.saveDrains(all); err != nil {
		t.Fatal(err)
	}
	if got, err := d.drains(); err != nil || got.sum() != all.sum() || len(got) != 3 {
		t.Error(got, err)
	}
	for name, text := range map[string]string{incarnationFile: "x", drainsFile: "12345678x"} {
		if err := os.WriteFile(filepath.Join(d.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := d.incarnation(); err == nil {
		t.Error("a damaged incarnation is read")
	}
	if got, err := d.drains(); err == nil || len(got) != 0 {
		t.Error("damaged drains are read")
	}
	pipe := filepath.Join(d.dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := d.read("pipe", 100); err == nil {
		t.Errorf("a pipe is read: %q", got)
	}
	if _, err := d.read(drainsFile, 8); err == nil {
		t.Error("more than was asked for is read")
	}
}
