package main

import (
	"io"
	"strings"
	"testing"
)

// What a command prints is copied to the buffer as exec does it.
func TestCapped(t *testing.T) {
	for size, kept := range map[int]int{9: 9, 10: 10, 11: 0} {
		c := &capped{left: 10}
		if _, err := io.Copy(c, strings.NewReader(strings.Repeat("x", size))); err != nil || c.kept.Len() != kept || (c.left < 0) != (size > 10) {
			t.Errorf("of %d bytes %d are kept, %d are left: %v", size, c.kept.Len(), c.left, err)
		}
	}
}
