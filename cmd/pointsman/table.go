package main

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// table aligns rows. What comes later keeps to the columns of what was before, as
// far as it fits, for those who watch.
type table struct {
	w      io.Writer
	widths []int
}

// gap is the space between two columns.
const gap = 2

// print writes rows at once.
func (t *table) print(rows [][]string) error {
	for _, row := range rows {
		for i, cell := range row {
			if i == len(t.widths) {
				t.widths = append(t.widths, 0)
			}
			t.widths[i] = max(t.widths[i], utf8.RuneCountInString(cell))
		}
	}
	var b bytes.Buffer
	for _, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			line.WriteString(cell)
			line.WriteString(strings.Repeat(" ", t.widths[i]-utf8.RuneCountInString(cell)+gap))
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	_, err := t.w.Write(b.Bytes())
	return err
}

// column is one of a table of Rs.
type column[R any] struct {
	head string
	wide bool // only with -o wide
	text func(*R) string
}

// columnsOf gives those that are shown.
func columnsOf[R any](all []column[R], wide bool) []column[R] {
	return slices.DeleteFunc(slices.Clone(all), func(c column[R]) bool { return c.wide && !wide })
}

func heads[R any](columns []column[R]) []string {
	var out []string
	for _, c := range columns {
		out = append(out, c.head)
	}
	return out
}

// cells gives a row as it's shown. Whatever a cell says, it's one line.
func cells[R any](columns []column[R], row *R) []string {
	var out []string
	for _, c := range columns {
		out = append(out, strings.Map(printable, c.text(row)))
	}
	return out
}

func printable(r rune) rune {
	if unicode.IsControl(r) {
		return ' '
	}
	return r
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

// listText joins texts, a dash for none.
func listText(texts []string) string { return orDash(strings.Join(texts, ",")) }

func textsOf[T fmt.Stringer](items []T) []string {
	var texts []string
	for _, i := range items {
		texts = append(texts, i.String())
	}
	return texts
}
