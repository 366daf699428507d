package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
)

// Document is a part of a file that Decode makes objects of, for who wants to
// change the file.
type Document struct {
	Offset int    // of Text in the file, in bytes
	Line   int    // of the file, where Text starts
	Text   []byte // the file's own bytes
	JSON   bool   // Text is one JSON object, and nothing else
}

// Documents gives the documents of a file in order, as Decode tells them apart.
func Documents(data []byte) []Document {
	var all []Document
	for _, d := range split(data) {
		all = append(all, Document{Offset: d.offset, Line: d.line, Text: d.text, JSON: d.json})
	}
	return all
}

// ToJSON gives a document as JSON, as Decode reads it. What Decode refuses before
// it looks at an object's fields is an error: no YAML, a field that is there
// twice, more than is read, aliases that multiply to that.
func (d Document) ToJSON() ([]byte, error) {
	js, found := (&decoding{doc: document{text: d.Text, json: d.JSON}}).toJSON()
	if len(found) > 0 {
		return nil, errors.New(found[0].message)
	}
	return js, nil
}

// document is one YAML or JSON document of a file. Documents that hold only
// blanks, comments and directives are none.
type document struct {
	number int    // among the documents of its file, from 1
	line   int    // of the file, where text starts
	offset int    // of text, when the file was split
	text   []byte // from the first line that is neither blank nor a comment
	json   bool   // text is one JSON object, and nothing else
}

// split gives the documents of a file. The YAML parser reads one document and
// leaves the rest of its input unread without a word, so every boundary that
// it knows has to be found here: lines that start with --- or ..., after any
// of YAML 1.1's line breaks, and JSON objects that follow each other. Such a
// line is a boundary wherever it stands, inside quotes and block scalars too
// (YAML 1.1, c-forbidden).
func split(data []byte) []document {
	s := splitter{lines: newLines(data)}
	for s.lines.next() {
		s.take(s.lines.text())
	}
	s.flush(len(s.lines.data), false)
	return s.docs
}

// byteOrderMark may begin each document (YAML 1.2, 9.1.1), as where files were
// put one behind the other. It isn't a part of it.
const byteOrderMark = "\ufeff"

type splitter struct {
	lines lines
	docs  []document

	open       bool // a document has begun
	start      int  // its offset
	line       int  // its first line
	directives bool // all there is of it so far are % lines
}

// take looks at the next line.
func (s *splitter) take(line []byte) {
	start := s.lines.start
	if !s.open {
		line = bytes.TrimLeft(line, byteOrderMark)
		start = s.lines.end - len(line)
	}
	switch {
	case isMarker(line, "---"):
		s.flush(start, true)
		if !isBlank(line[3:]) {
			s.begin(start) // --- !!map, --- {kind: Service}
		}
	case isMarker(line, "..."):
		s.flush(start, false)
		if !isBlank(line[3:]) {
			s.begin(start + 3)
		}
	case isBlank(line):
	case !s.open:
		s.begin(start)
		s.directives = line[0] == '%'
	default:
		s.directives = s.directives && line[0] == '%'
	}
}

func (s *splitter) begin(offset int) {
	s.open, s.start, s.line, s.directives = true, offset, s.lines.number, false
}

// flush ends the document at an offset. Directives are part of the --- that
// follows them, and say nothing that matters to a manifest.
func (s *splitter) flush(end int, marker bool) {
	if !s.open {
		return
	}
	s.open = false
	if s.directives && marker {
		return
	}
	text := s.lines.data[s.start:end]
	docs, ok := splitJSON(text)
	if !ok {
		docs = []document{{line: 1, text: text}}
	}
	for _, d := range docs {
		d.number, d.line, d.offset = len(s.docs)+1, s.line+d.line-1, s.start+d.offset
		s.docs = append(s.docs, d)
	}
}

// splitJSON gives the JSON objects that a text consists of, with their lines
// in it. It reports false where the text is anything else.
func splitJSON(text []byte) ([]document, bool) {
	if text[0] != '{' {
		return nil, false
	}
	var docs []document
	dec := json.NewDecoder(bytes.NewReader(text))
	line, counted := 1, 0
	for {
		var raw json.RawMessage
		switch err := dec.Decode(&raw); {
		case errors.Is(err, io.EOF):
			return docs, true
		case err != nil || raw[0] != '{':
			return nil, false
		}
		end := int(dec.InputOffset())
		start := end - len(raw)
		line += bytes.Count(text[counted:start], []byte("\n"))
		counted = start
		docs = append(docs, document{line: line, offset: start, text: text[start:end], json: true})
	}
}

// isMarker reports whether a line is a document marker: three characters and
// a blank or the line's end.
func isMarker(line []byte, marker string) bool {
	if len(line) < 3 || string(line[:3]) != marker {
		return false
	}
	return len(line) == 3 || line[3] == ' ' || line[3] == '\t' || line[3] == '\r'
}

// isBlank reports whether a line, or the rest of one, holds nothing but
// blanks and a comment.
func isBlank(line []byte) bool {
	line = bytes.TrimLeft(line, " \t\r")
	return len(line) == 0 || line[0] == '#'
}

// lines iterates over the lines of a text.
type lines struct {
	data   []byte
	breaks string // the characters that end a line
	start  int    // of the current line
	end    int    // of the current line, without its break
	after  int    // the current line's break
	number int    // of the current line, from 1
}

// newLines reads lines that end as YAML 1.1 has it: next to \n and \r\n, a
// lone \r, NEL, LS and PS. All but the first two are looked for only where
// they occur.
func newLines(data []byte) lines {
	l := lines{data: data, breaks: "\n"}
	exotic := bytes.Count(data, []byte("\r")) != bytes.Count(data, []byte("\r\n"))
	for _, c := range []string{"\u0085", "\u2028", "\u2029"} {
		exotic = exotic || bytes.Contains(data, []byte(c))
	}
	if exotic {
		l.breaks = "\r\n\u0085\u2028\u2029"
	}
	return l
}

func (l *lines) text() []byte { return l.data[l.start:l.end] }

func (l *lines) next() bool {
	if l.after >= len(l.data) {
		return false
	}
	l.start = l.after
	l.number++
	rest := l.data[l.start:]
	n := bytes.IndexByte(rest, '\n')
	if l.breaks != "\n" {
		n = bytes.IndexAny(rest, l.breaks)
	}
	if n < 0 {
		l.end, l.after = len(l.data), len(l.data)
		return true
	}
	l.end = l.start + n
	l.after = l.end + breakLen(rest[n:])
	return true
}

// breakLen is the length of the line break that a text starts with.
func breakLen(text []byte) int {
	switch {
	case bytes.HasPrefix(text, []byte("\r\n")), text[0] == 0xc2:
		return 2
	case text[0] == 0xe2:
		return 3
	}
	return 1
}
