package main

import (
	"fmt"
	"strings"
	"testing"
)

// TestTable: what comes later keeps to the columns, until it doesn't fit.
func TestTable(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	table := &table{w: &b}
	for _, rows := range [][][]string{
		{{"NAME", "WHY"}, {"wéb", ""}, {"", "a\x1b[31m"}},
		{{"db", "down", "(gone)"}},
		{{"longer than that", "down"}},
		{{"db", "down"}},
	} {
		for i, row := range rows {
			columns := make([]column[int], len(row))
			for k := range row {
				columns[k].text = func(*int) string { return row[k] }
			}
			rows[i] = cells(columns, new(int))
		}
		if err := table.print(rows); err != nil {
			t.Fatal(err)
		}
	}
	const want = `NAME  WHY
wéb
      a [31m
db    down    (gone)
longer than that  down
db                down
`
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}

// TestShownRows: only what is different is a change.
func TestShownRows(t *testing.T) {
	t.Parallel()
	shown := shownRows{}
	for _, c := range []struct {
		now  []item
		want string
	}{
		{[]item{{"a", "1"}, {"b", "1"}}, "[{ADDED 1} {ADDED 1}]"},
		{[]item{{"b", "1"}, {"a", "1"}}, "[]"},
		{[]item{{"c", "3"}, {"a", "2"}}, "[{ADDED 3} {MODIFIED 2} {DELETED 1}]"},
		{nil, "[{DELETED 2} {DELETED 3}]"},
		{[]item{{"a", "2"}}, "[{ADDED 2}]"},
	} {
		if got := fmt.Sprint(shown.update(c.now)); got != c.want {
			t.Errorf("%v: got %s, want %s", c.now, got, c.want)
		}
	}
}

// TestShower: a change is a line, or a document.
func TestShower(t *testing.T) {
	t.Parallel()
	text := []rowChange{{"ADDED", "web" + between + "ok"}, {"DELETED", "db" + between + "ok"}}
	object := []rowChange{{"MODIFIED", `{"name":"<web>"}`}}
	for _, c := range []struct {
		v       view
		changes []rowChange
		want    string
	}{
		{view{format: "text"}, text, "NAME  STATUS\nweb   ok\ndb    ok      (gone)\n"},
		{view{format: "wide", headless: true}, text, "web  ok\ndb   ok  (gone)\n"},
		{view{format: "json"}, object, `{"type":"MODIFIED","object":{"name":"<web>"}}` + "\n"},
		{view{format: "yaml"}, object, "---\nobject:\n  name: <web>\ntype: MODIFIED\n"},
	} {
		var b strings.Builder
		c.v.out = &b
		if err := c.v.shower([]string{"NAME", "STATUS"})(c.changes); err != nil || b.String() != c.want {
			t.Errorf("%s: %v, got\n%s\nwant\n%s", c.v.format, err, b.String(), c.want)
		}
	}
}
