package manifest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// follow resolves the links that were found, those to directories first: a
// file in a linked directory is then known before a link to the same file.
func (s *scanner) follow() error {
	var files []entry
	for len(s.links) > 0 {
		links := s.links
		s.links = nil
		slices.Sort(links)
		targets := make([]target, len(links))
		err := parallel(len(links), func(i int) (err error) {
			targets[i], err = s.target(links[i])
			return err
		})
		if err != nil {
			return err
		}
		s.spotLinks(links, targets)
		for i, link := range links {
			switch t := targets[i]; {
			case t.fault != "":
				s.entries = append(s.entries, entry{path: link, fault: t.fault})
			case t.info == nil:
			case t.info.IsDir():
				if err := s.walk(link); err != nil {
					return err
				}
			case t.info.Mode().IsRegular() && wanted(path.Base(link)):
				files = append(files, entry{path: link, stamp: stampOf(t.info)})
			}
		}
	}
	return s.addLinked(files)
}

// addLinked adds the files that are known only by a link, each once.
func (s *scanner) addLinked(files []entry) error {
	if len(files) == 0 {
		return nil
	}
	have := make(map[fileID]bool, len(s.entries)+len(files))
	for _, e := range s.entries {
		have[e.stamp.id()] = true
	}
	for _, e := range files {
		if !have[e.stamp.id()] {
			have[e.stamp.id()] = true
			s.entries = append(s.entries, e)
		}
	}
	if len(s.entries) > s.limits.files {
		return fmt.Errorf("more than %d manifest files", s.limits.files)
	}
	return nil
}

// target is what a link leads to, nothing where it does not matter: a README
// that leads elsewhere is no concern.
type target struct {
	info  fs.FileInfo
	fault string // why a link that should bring a manifest brings none
}

// target follows a link. One that should bring manifests and cannot is a fault,
// for ignoring it would read as a removal of what it brought before; of a whole
// directory it can't be told what that was, so that is an error. os.Root lets no
// link leave the root, not even one that is written as an absolute path into it.
func (s *scanner) target(link string) (target, error) {
	info, err := s.root.Stat(link)
	if err == nil {
		return target{info: info}, nil
	}
	to, readErr := s.root.Readlink(link)
	if readErr != nil {
		return target{}, vanished(link, readErr)
	}
	fault := fmt.Errorf("link to %s: %w", to, withoutPath(err))
	if strings.HasSuffix(err.Error(), rootEscape) {
		fault = fmt.Errorf("link to %s, out of the directory", to)
	}
	outside, statErr := os.Stat(filepath.Join(s.real, link))
	switch {
	case statErr == nil && outside.IsDir():
		return target{}, fmt.Errorf("%s: %w", link, fault)
	case wanted(path.Base(link)):
		return target{fault: fault.Error()}, nil
	}
	return target{}, nil
}

// rootEscape is the end of os.Root's error for a link that leaves the root. It
// has no name.
const rootEscape = "path escapes from parent"

// withoutPath gives the bare error of one that names the path too.
func withoutPath(err error) error {
	if perr := (*fs.PathError)(nil); errors.As(err, &perr) {
		return perr.Err
	}
	return err
}

// spotLinks has the ways of the links watched, one for each directory they
// lead to: a projected volume has all its files behind one ..data.
func (s *scanner) spotLinks(links []string, targets []target) {
	if s.spotter == nil {
		return
	}
	done := make(map[string]bool)
	for i, link := range links {
		to, err := s.root.Readlink(link)
		info := targets[i].info
		if err != nil || info == nil && targets[i].fault == "" {
			continue
		}
		way := path.Join(path.Dir(link), path.Dir(to))
		if done[way] && (info == nil || info.Mode().IsRegular()) {
			continue
		}
		done[way] = true
		r, err := resolvePath(filepath.Join(s.real, link))
		s.spotter.names(r.names)
		if err == nil {
			s.spotter.dir(filepath.Dir(r.real))
		}
	}
}
