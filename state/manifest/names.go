package manifest

import (
	"path"
	"slices"
	"strings"
)

// ignored reports whether a file or directory name is passed over.
//
// A leading dot covers .git, editors' swap files, NFS's .nfs0123 and, most of
// all, the ..data and ..2025_01 of projected volumes: their files are listed
// beside them as links, and reading the directories too would load every
// object twice (cilium/cilium#14565). The rest are leftovers of editors and of
// hands: x.yaml~, #x.yaml#, old.bak.
func ignored(name string) bool {
	if strings.HasPrefix(name, ".") || strings.HasSuffix(name, "~") {
		return true
	}
	if strings.HasPrefix(name, "#") && strings.HasSuffix(name, "#") {
		return true
	}
	switch path.Ext(name) {
	case ".swp", ".tmp", ".bak":
		return true
	}
	return false
}

// wanted reports whether a file of this name is a manifest. The suffixes are
// those of kubectl apply -f DIR, case counts as it does there.
func wanted(name string) bool {
	if ignored(name) {
		return false
	}
	switch path.Ext(name) {
	case ".yaml", ".yml", ".json":
		return true
	}
	return false
}

// IsManifest reports whether a file is one that Tree reads, by its path in the
// manifests directory, with slashes.
func IsManifest(file string) bool {
	return !slices.ContainsFunc(strings.Split(path.Dir(file), "/"), func(dir string) bool { return dir != "." && ignored(dir) }) &&
		wanted(path.Base(file))
}
