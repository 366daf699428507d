package gitsync

import (
	"bytes"
	"io"
	"regexp"
	"strings"
)

// progressReader takes what git says of its progress out of its standard error.
// The rest is what errors are made of.
type progressReader struct {
	rest io.Writer
	tell func(text string) // nil for nobody

	line     []byte
	returned bool // the line ended with \r, and nothing has followed yet
}

// maxLine is more than git or ssh say in a line.
const maxLine = 1 << 10

// Write never fails.
func (r *progressReader) Write(p []byte) (int, error) {
	for _, b := range p {
		if r.returned && b != '\n' {
			r.end(true)
		}
		r.returned = b == '\r'
		switch {
		case b == '\n':
			r.end(false)
		case b != '\r' && len(r.line) < maxLine:
			r.line = append(r.line, b)
		}
	}
	return len(p), nil
}

// flush takes in a line that has no end.
func (r *progressReader) flush() {
	if len(r.line) > 0 {
		r.end(false)
	}
}

// end takes in a line. One that the next is written over is of no other use.
func (r *progressReader) end(written bool) {
	text := progressText(string(r.line))
	switch {
	case text != "" && r.tell != nil:
		r.tell(text)
	case !written:
		_, _ = r.rest.Write(append(bytes.Clone(r.line), '\n'))
	}
	r.line = r.line[:0]
}

var gitProgress = regexp.MustCompile(`^(?:remote: )?([A-Z][a-z]{2,15}(?: [a-z]{2,15})?): +(\d{1,3})% \((\d{1,10})/(\d{1,10})\)`)

// progressText gives a line of git's about its progress in our words, or
// nothing. Half of them are the server's: they're not for anybody's terminal.
func progressText(line string) string {
	m := gitProgress.FindStringSubmatch(line)
	if m == nil {
		return ""
	}
	return strings.ToLower(m[1]) + ", " + m[2] + " % (" + m[3] + " of " + m[4] + ")"
}
