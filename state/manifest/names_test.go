package manifest

import (
	"path"
	"strings"
	"testing"
)

func TestWanted(t *testing.T) {
	for name, want := range map[string]bool{
		"web.yaml": true, "web.yml": true, "web.json": true, "a.b.yaml": true, "web.tmp.yaml": true, "#web.yaml": true,
		".yaml": false, ".web.yaml": false, "..data": false, "..2025_01": false, ".git": false, ".nfs0000000012.yaml": false,
		"web.yaml~": false, "#web.yaml#": false, ".web.yaml.swp": false, "web.yaml.swp": false, "web.yaml.tmp": false,
		"web.yaml.bak": false, "web.YAML": false, "web.txt": false, "README.md": false, "yaml": false, "": false, "#": false,
	} {
		if got := wanted(name); got != want {
			t.Errorf("wanted(%q) = %v", name, got)
		}
	}
	for _, dir := range []string{".git", "..data", "old.bak", "team~", "x.tmp"} {
		if !ignored(dir) {
			t.Errorf("directory %s is read", dir)
		}
	}
	for _, dir := range []string{"team", "team.d", "v1.2", "#1"} {
		if ignored(dir) {
			t.Errorf("directory %s is not read", dir)
		}
	}
}

func TestIsManifest(t *testing.T) {
	for file, want := range map[string]bool{
		"web.yaml": true, "team/a/web.json": true, "README.md": false, ".web.yaml": false, ".github/ci.yaml": false, "a/.b/c.yaml": false, "old.bak/web.yaml": false,
	} {
		if got := IsManifest(file); got != want {
			t.Errorf("IsManifest(%q) = %v", file, got)
		}
	}
}

// A name that is wanted is visible, ends as a manifest does, and is not
// wanted any more as an editor's or NFS's leftover of it.
func FuzzWanted(f *testing.F) {
	for _, s := range []string{"web.yaml", ".x.json", "#a.yml#", "a.yaml~", "\xff.yaml", "a\n.yml", "..yaml"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if !wanted(name) {
			return
		}
		if ignored(name) || strings.HasPrefix(name, ".") || !strings.Contains(".yaml.yml.json", path.Ext(name)) {
			t.Errorf("%q is wanted", name)
		}
		for _, left := range []string{"." + name, name + "~", "#" + name + "#", name + ".bak", name + ".swp", name + ".tmp", ".nfs" + name} {
			if wanted(left) {
				t.Errorf("%q is wanted", left)
			}
		}
	})
}
