package gitsync

import "bytes"

// Capped is a buffer for what a command prints: what doesn't fit is forgotten.
// The buffer isn't embedded, for io.Copy would use its ReadFrom, which has no
// limit.
type Capped struct {
	kept bytes.Buffer
	left int // negative once something was forgotten
}

// NewCapped gives a buffer of at most max bytes.
func NewCapped(max int) *Capped { return &Capped{left: max} }

// Write never fails.
func (c *Capped) Write(p []byte) (int, error) {
	if c.left -= len(p); c.left >= 0 {
		c.kept.Write(p)
	}
	return len(p), nil
}

// Over reports whether something was forgotten.
func (c *Capped) Over() bool { return c.left < 0 }

// Bytes gives what fitted.
func (c *Capped) Bytes() []byte { return c.kept.Bytes() }

// String gives what fitted.
func (c *Capped) String() string { return c.kept.String() }
