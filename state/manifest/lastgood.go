package manifest

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"pointsman/state"
)

// lastGoodStore holds the last good objects: in memory once a Result was
// accepted, before that (and only if asked for) in the file that the process
// before left behind.
type lastGoodStore struct {
	file     string
	read     bool // the file needs no reading any more
	version  int  // counts the changes of objects
	objects  []*digest
	problems []Problem // of the file; until a Result is accepted
}

// restore fills the store from the file, the first time. Whatever is wrong
// with the file is a problem to be told, and no reason not to start.
func (g *lastGoodStore) restore(l *Loader) {
	if g.read {
		return
	}
	objects, problems := readLastGood(g.file, l.cfg)
	g.begin(l, objects, problems)
}

// begin makes objects that were read the last good ones.
func (g *lastGoodStore) begin(l *Loader, objects []*Object, problems []Problem) {
	all := make([]*digest, 0, len(objects))
	for _, o := range objects {
		all = append(all, l.newDigest(o))
	}
	g.accept(all)
	g.problems = problems
}

// accept makes objects the last good ones.
func (g *lastGoodStore) accept(objects []*digest) {
	if g.read && len(g.problems) == 0 && slices.Equal(g.objects, objects) {
		return
	}
	for _, e := range g.objects {
		e.slot.good = nil
	}
	for _, e := range objects {
		e.slot.good = e
	}
	g.objects, g.problems, g.read = objects, nil, true
	g.version++
}

func (g *lastGoodStore) snapshot() LastGood {
	objects := make([]*Object, 0, len(g.objects))
	for _, e := range g.objects {
		objects = append(objects, e.object)
	}
	return LastGood{objects}
}

// Documents gives what the Result serves in the form of the last good objects.
func (r *Result) Documents() LastGood {
	objects := make([]*Object, 0, len(r.effective))
	for _, e := range r.effective {
		objects = append(objects, e.object)
	}
	return LastGood{objects}
}

// Resume gives a Loader whose last good objects are the documents that
// LastGood.WriteTo wrote, such as another process's. Documents that aren't good
// by cfg are left out, and are among the Problems of what it loads first.
func Resume(documents []byte, cfg Config) *Loader {
	l := NewLoader(cfg, "")
	objects, problems := decodeLastGood("documents", documents, cfg)
	l.lastGood.begin(l, objects, problems)
	return l
}

// LastGood is the documents of the objects that were served last, as they
// outlive the process: one file with all of them as they stand in the
// manifests, so that a person can read it, each after a comment with its
// place, and a checksum before all.
//
//	# <what this is>
//	# sha256 <hex digits, of all that follows>
//	---
//	# web.yaml:12 (204 bytes)
//	apiVersion: v1
//	...
//
// It is immutable and may be written by another goroutine than the Loader's.
type LastGood struct{ objects []*Object }

const lastGoodHeader = "# The manifests that pointsman served last on this host. It falls back to them where a document turns bad; don't edit.\n# sha256 "

// WriteTo writes the file's contents.
func (g LastGood) WriteTo(w io.Writer) (int64, error) {
	sum := sha256.New()
	if err := g.writeBody(sum); err != nil {
		return 0, err
	}
	n, err := fmt.Fprintf(w, "%s%x\n", lastGoodHeader, sum.Sum(nil))
	if err != nil {
		return int64(n), err
	}
	c := &counter{w: w, n: int64(n)}
	err = g.writeBody(c)
	return c.n, err
}

type counter struct {
	w io.Writer
	n int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}

func (g LastGood) writeBody(w io.Writer) error {
	b := bufio.NewWriter(w)
	for _, o := range g.objects {
		fmt.Fprintf(b, "---\n# %s:%d (%d bytes)\n", quotePath(o.Source.File), o.Source.Line, len(o.Raw))
		b.Write(o.Raw)
		if !bytes.HasSuffix(o.Raw, []byte("\n")) {
			b.WriteByte('\n')
		}
	}
	return b.Flush()
}

// quotePath keeps a path on one line.
func quotePath(path string) string {
	if q := strconv.Quote(path); q != `"`+path+`"` {
		return q
	}
	return path
}

// WriteFile replaces the file so that it is there as a whole, the old or the
// new one, whenever the power fails.
func (g LastGood) WriteFile(path string) error {
	return ReplaceFile(path, func(f *os.File) error {
		_, err := g.WriteTo(f)
		return err
	})
}

// readLastGood gives the objects of a file that WriteFile wrote. A file that
// isn't there has none. One that is damaged has none either, and a document
// that isn't good any more (for a newer version's rules) is left out: both are
// told as problems.
func readLastGood(path string, cfg Config) ([]*Object, []Problem) {
	f, err := OpenRegular(path)
	if path == "" || errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var data []byte
	if err == nil {
		defer f.Close()
		data, err = io.ReadAll(f)
	}
	if err != nil {
		return nil, []Problem{damagedLastGood(path, err)}
	}
	return decodeLastGood(path, data, cfg)
}

func damagedLastGood(path string, err error) Problem {
	return lastGoodProblem(ruleLastGoodDamaged, path, "the last good versions are ignored: %v", err)
}

// decodeLastGood gives the objects of the file's contents.
func decodeLastGood(path string, data []byte, cfg Config) ([]*Object, []Problem) {
	files, docs, err := splitLastGood(data)
	if err != nil {
		return nil, []Problem{damagedLastGood(path, err)}
	}
	var objects []*Object
	var problems []Problem
	for i, decoded := range DecodeFiles(files, cfg, nil) {
		o := moveTo(decoded, docs[i].line)
		if o == nil {
			problems = append(problems, lastGoodProblem(ruleLastGoodRefused, path, "the last good version (%s:%d) is not good any more, and ignored", files[i].Path, docs[i].line))
			continue
		}
		objects = append(objects, o)
	}
	return objects, problems
}

func lastGoodProblem(rule Rule, path, format string, args ...any) Problem {
	return newProblem(rule, state.Source{File: path, Line: 1}, format, args...)
}

// moveTo gives the one good object that was decoded, with the place it had in
// its own file.
func moveTo(decoded []*Object, line int) *Object {
	if len(decoded) != 1 || decoded[0].Failed() || !isTold(decoded[0].Key) {
		return nil
	}
	doc := *decoded[0].doc
	doc.line = line
	return relocate(decoded, decoded[0].Source.File, doc)[0]
}

var errDamaged = errors.New("the file is damaged")

// splitLastGood gives the documents of the file's contents as files of their
// own, and where they stood.
func splitLastGood(data []byte) ([]*File, []document, error) {
	rest, ok := bytes.CutPrefix(data, []byte(lastGoodHeader))
	sum, body, found := bytes.Cut(rest, []byte("\n"))
	if want := sha256.Sum256(body); !ok || !found || string(sum) != hex.EncodeToString(want[:]) {
		return nil, nil, errDamaged
	}
	var files []*File
	var docs []document
	for len(body) > 0 {
		f, doc, after, err := cutLastGood(body)
		if err != nil {
			return nil, nil, err
		}
		files, docs, body = append(files, f), append(docs, doc), after
	}
	return files, docs, nil
}

// cutLastGood takes the first document off the file's body.
func cutLastGood(body []byte) (*File, document, []byte, error) {
	body, ok := bytes.CutPrefix(body, []byte("---\n# "))
	head, rest, found := bytes.Cut(body, []byte("\n"))
	place, size, sized := cutLast(strings.TrimSuffix(string(head), " bytes)"), " (")
	file, at, placed := cutLast(place, ":")
	line, err1 := strconv.Atoi(at)
	n, err2 := strconv.Atoi(size)
	if !ok || !found || !sized || !placed || err1 != nil || err2 != nil || n < 0 || n > len(rest) {
		return nil, document{}, nil, errDamaged
	}
	if path, err := strconv.Unquote(file); err == nil {
		file = path
	}
	text, rest := rest[:n], rest[n:]
	if !bytes.HasSuffix(text, []byte("\n")) {
		rest = bytes.TrimPrefix(rest, []byte("\n"))
	}
	return &File{Path: file, Data: text}, document{line: line}, rest, nil
}

// cutLast cuts s around the last sep.
func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}
