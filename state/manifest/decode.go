package manifest

import (
	"bytes"
	"hash/maphash"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
)

// Decode gives the documents of a file as objects, in order: defaulted and
// validated, each by itself. It never fails as a whole. What is wrong with a
// document is among its Problems, all of it at once; a document that does not
// even parse is an Object with whatever Key could be told.
//
// A List gives one object for each of its items, and one more for the List
// only where the List itself is in error.
func Decode(f *File, cfg Config) []*Object {
	return DecodeFiles([]*File{f}, cfg, nil)[0]
}

// DecodeFiles decodes many files, document by document in parallel. The result
// has one entry for each file.
//
// before gives the objects that an earlier decode with the same Config made of a
// file (of the same path, usually); it may be nil. Documents whose bytes are
// those of one of its objects are not decoded again: they are the same pointers,
// or shallow copies where the document has another file, line or number now.
func DecodeFiles(files []*File, cfg Config, before func(*File) []*Object) [][]*Object {
	var jobs []func()
	results := make([][][]*Object, len(files))
	for i, f := range files {
		var known memory
		if before != nil {
			known = remember(before(f))
		}
		docs := split(f.Data)
		results[i] = make([][]*Object, len(docs))
		for j, doc := range docs {
			if objects := known.recall(f.Path, doc); objects != nil {
				results[i][j] = objects
				continue
			}
			jobs = append(jobs, func() { results[i][j] = decodeDocument(f.Path, doc, cfg) })
		}
	}
	runAll(jobs)
	return flatten(results)
}

// runAll runs jobs on all the processors there are.
func runAll(jobs []func()) {
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(jobs)) {
		wg.Go(func() {
			for i := next.Add(1); i <= int64(len(jobs)); i = next.Add(1) {
				jobs[i-1]()
			}
		})
	}
	wg.Wait()
}

func flatten(files [][][]*Object) [][]*Object {
	flat := make([][]*Object, len(files))
	for i, docs := range files {
		for _, objects := range docs {
			flat[i] = append(flat[i], objects...)
		}
	}
	return flat
}

// memory holds the objects of an earlier decode, one slice for a document, by
// the hash of the document's bytes.
type memory struct {
	seed  maphash.Seed
	texts map[uint64][][]*Object
}

func remember(objects []*Object) memory {
	if len(objects) == 0 {
		return memory{}
	}
	m := memory{seed: maphash.MakeSeed(), texts: make(map[uint64][][]*Object, len(objects))}
	for start, end := 0, 1; start < len(objects); end++ {
		if end < len(objects) && objects[end].doc == objects[start].doc {
			continue
		}
		if doc := objects[start].doc; doc != nil {
			h := maphash.Bytes(m.seed, doc.text)
			m.texts[h] = append(m.texts[h], objects[start:end:end])
		}
		start = end
	}
	return m
}

// recall gives what an earlier decode made of a document, or nil.
func (m memory) recall(file string, doc document) []*Object {
	if m.texts == nil {
		return nil
	}
	for _, objects := range m.texts[maphash.Bytes(m.seed, doc.text)] {
		if old := objects[0].doc; bytes.Equal(old.text, doc.text) && old.json == doc.json {
			return relocate(objects, file, doc)
		}
	}
	return nil
}

// relocate gives the objects of a document as they are with the document at
// another place.
func relocate(objects []*Object, file string, doc document) []*Object {
	old := objects[0].doc
	if objects[0].Source.File == file && old.line == doc.line && old.number == doc.number {
		return objects
	}
	down := doc.line - old.line
	doc.text = old.text // the file's bytes are not kept alive
	moved := make([]*Object, len(objects))
	for i, o := range objects {
		m := *o
		m.doc = &doc
		m.Source.File = file
		m.Source.Line += down
		m.Problems = slices.Clone(o.Problems)
		for j := range m.Problems {
			p := &m.Problems[j]
			p.Source.File, p.Document = file, doc.number
			p.Source.Line += down
		}
		moved[i] = &m
	}
	return moved
}
