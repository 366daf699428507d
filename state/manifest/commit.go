package manifest

import (
	"bufio"
	"path/filepath"
	"strings"
)

// commit tells which commit a tree is of: that of the work tree it is in, or
// the one that a directory on its path is named by, as `pointsman sync` and
// git-sync name what they publish; whichever is nearer. Of a work tree it is
// HEAD, whatever is changed in it: only running git could tell, and that is
// not for files of somebody else's (see lookGit).
func (s *sight) commit() string {
	for dir := s.real; ; {
		if name := filepath.Base(dir); IsCommit(name) {
			return name
		}
		if git, err := gitDirIn(dir); git != "" && err == nil {
			for _, m := range s.git {
				if m.dir == git {
					return m.commit()
				}
			}
			return ""
		}
		up := filepath.Dir(dir)
		if up == dir {
			return ""
		}
		dir = up
	}
}

// IsCommit reports whether a text is a commit's name in full: SHA-1, or
// SHA-256.
func IsCommit(text string) bool {
	return (len(text) == 40 || len(text) == 64) && isHex(text)
}

// isHex reports whether a text is of digits and letters as git, and we, write
// a hash.
func isHex(text string) bool { return strings.Trim(text, "0123456789abcdef") == "" }

// commit gives the commit that HEAD names.
func (m gitMark) commit() string {
	lines := strings.Fields(m.head)
	if len(lines) == 0 {
		return ""
	}
	if tip := lines[len(lines)-1]; IsCommit(tip) {
		return tip
	}
	if lines[0] != "ref:" || len(lines) < 2 {
		return ""
	}
	return packedRef(filepath.Join(gitCommonDir(m.dir), "packed-refs"), lines[1])
}

// packedRef looks a branch up among those that have no file of their own. It
// may come a moment later than the look at HEAD: then that has moved, and the
// tree is read again.
func packedRef(path, ref string) string {
	f, err := OpenRegular(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	for in := bufio.NewScanner(f); in.Scan(); {
		if tip, name, _ := strings.Cut(in.Text(), " "); name == ref && IsCommit(tip) {
			return tip
		}
	}
	return ""
}
