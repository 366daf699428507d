package gitsync

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// write writes a commit's files, or refuses it for where they lead.
func (s *session) write(ctx context.Context, commit string, files []entry, dir string) error {
	err := s.extract(ctx, files, dir)
	if bad := (*badLink)(nil); errors.As(err, &bad) {
		return &Refusal{commit, bad.Error()}
	}
	return err
}

// extract writes files as the commit has them, byte for byte. It asks for blobs:
// git archive and git checkout obey .gitattributes, by which a repository has
// its files rewritten on the way.
func (s *session) extract(ctx context.Context, files []entry, dir string) error {
	root, err := newTree(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	var ids strings.Builder
	for _, e := range files {
		ids.WriteString(e.id + "\n")
	}
	blobs, out := io.Pipe()
	written := make(chan error, 1)
	go func() {
		err := writeFiles(root, files, bufio.NewReaderSize(blobs, 1<<16))
		blobs.CloseWithError(err) // so that git doesn't wait for a reader
		written <- err
	}()
	err = s.git.run(ctx, call{
		args: []string{"cat-file", "--batch", "--buffer"}, limit: localTimeout, stdin: strings.NewReader(ids.String()), stdout: out,
	})
	out.Close()
	if failed := <-written; failed != nil && (err == nil || !errors.Is(failed, io.ErrUnexpectedEOF)) {
		return failed
	}
	return err
}

func newTree(dir string) (*os.Root, error) {
	if err := os.RemoveAll(dir); err != nil {
		return nil, err
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, err
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return nil, err
	}
	return os.OpenRoot(dir)
}

// writeFiles writes the blobs that git gives in the order of the files. Links
// come last, so nothing is written through one.
func writeFiles(root *os.Root, files []entry, blobs *bufio.Reader) error {
	var links []link
	for _, e := range files {
		if err := nextBlob(blobs, e); err != nil {
			return err
		}
		if err := makeDirs(root, path.Dir(e.path)); err != nil {
			return err
		}
		data := io.LimitReader(blobs, e.size)
		if e.link() {
			target, err := io.ReadAll(data)
			if err != nil {
				return err
			}
			links = append(links, link{e.path, string(target)})
		} else if err := writeBlob(root, e, data); err != nil {
			return err
		}
		if _, err := blobs.Discard(1); err != nil {
			return short(err)
		}
	}
	return makeLinks(root, links)
}

// nextBlob reads the line before a blob, which must be of the size that it was
// listed with.
func nextBlob(blobs *bufio.Reader, e entry) error {
	line, err := blobs.ReadString('\n')
	if err != nil {
		return short(err)
	}
	if want := fmt.Sprintf("%s blob %d\n", e.id, e.size); line != want {
		return fmt.Errorf("%q: git cat-file gives %q", e.path, strings.TrimSpace(line))
	}
	return nil
}

// short takes the end of what git gives for what it is before the last blob.
func short(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

func makeDirs(root *os.Root, dir string) error {
	if dir == "." {
		return nil
	}
	if info, err := root.Lstat(dir); err == nil && info.IsDir() {
		return nil
	}
	if err := makeDirs(root, path.Dir(dir)); err != nil {
		return err
	}
	if err := root.Mkdir(dir, 0o755); err != nil {
		return err
	}
	return root.Chmod(dir, 0o755) // whatever the umask: the agent is another user
}

func writeBlob(root *os.Root, e entry, data io.Reader) error {
	f, err := root.OpenFile(e.path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	n, err := io.Copy(f, data)
	if err == nil && n < e.size {
		err = io.ErrUnexpectedEOF
	}
	return errors.Join(err, f.Chmod(0o644), f.Close())
}

// link is a symbolic link in a tree.
type link struct{ name, target string }

// badLink is one that nobody should follow.
type badLink struct{ link }

func (b *badLink) Error() string {
	return fmt.Sprintf("%q: a link to %q leads out of the tree", b.name, b.target)
}

// makeLinks makes the links, and follows each once all are there: one alone may
// look harmless and lead out by way of another.
func makeLinks(root *os.Root, links []link) error {
	for _, l := range links {
		if path.IsAbs(l.target) || strings.ContainsRune(l.target, 0) || l.target == "" {
			return &badLink{l}
		}
		if err := root.Symlink(l.target, l.name); err != nil {
			return err
		}
	}
	for _, l := range links {
		if _, err := root.Stat(l.name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return &badLink{l}
		}
	}
	return nil
}

// intact reports whether a directory holds these files, by their names, kinds
// and sizes, and nothing else but our record.
func intact(dir string, files []entry) bool {
	want := make(map[string]entry, len(files))
	for _, e := range files {
		want[e.path] = e
	}
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(dir, name)
		if err != nil || rel == recordFile {
			return err
		}
		info, err := d.Info()
		e, listed := want[rel]
		if err != nil || !listed || info.Size() != e.size || e.link() != (d.Type() == fs.ModeSymlink) {
			return fs.ErrInvalid
		}
		delete(want, rel)
		return nil
	})
	return err == nil && len(want) == 0
}
