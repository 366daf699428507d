package main

import (
	"fmt"
	"strings"
)

// explains waits until what explain says has each of some texts in it, however
// it's broken into lines.
func (a *daemon) explains(args string, texts ...string) {
	a.t.Helper()
	eventually(a.t, func() error {
		// It ends with 1 where connections aren't served.
		out, err := a.ctl(append([]string{"explain"}, strings.Fields(args)...)...)
		said := strings.Join(strings.Fields(out), " ")
		for _, text := range texts {
			if !strings.Contains(said, text) {
				return fmt.Errorf("explain %s (%v) doesn't say %q:\n%s", args, err, text, out)
			}
		}
		return nil
	})
}
