package manifest

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// finding is a Problem in the making.
type finding struct {
	rule    Rule
	field   string
	message string
	line    int // in the document; 0 where it is to be looked up by field
}

func (f finding) severity() Severity { return severityOf(f.rule) }

// maxFindings is how many findings are reported of one object.
const maxFindings = 100

// capped leaves out findings beyond maxFindings, warnings first, unless it's one:
// that is as long as to say so.
func capped(all []finding) []finding {
	if len(all) <= maxFindings+1 {
		return all
	}
	slices.SortStableFunc(all, func(a, b finding) int {
		return cmp.Compare(b.severity(), a.severity())
	})
	more := finding{rule: ruleMoreProblems, message: fmt.Sprintf("and %d more problems", len(all)-maxFindings)}
	return append(slices.Clip(all[:maxFindings]), more)
}

// within gives the findings of an item as findings of its document.
func within(path string, found []finding) []finding {
	if path == "" {
		return found
	}
	for i := range found {
		if f := &found[i]; f.field == "" {
			f.field = path
		} else {
			f.field = join(path, f.field)
		}
	}
	return found
}

func hasErrors(found []finding) bool {
	return slices.ContainsFunc(found, func(f finding) bool { return f.severity() == Error })
}

// findings collects what is wrong with one object, in the order in which it
// is found.
type findings []finding

// err adds findings of a rule in the API server's words.
func (f *findings) err(rule Rule, list ...*field.Error) {
	for _, e := range list {
		*f = append(*f, finding{rule: rule, field: e.Field, message: e.ErrorBody()})
	}
}

// sorted adds the errors of a check that goes through a map, in an order that
// is the same on every host.
func (f *findings) sorted(rule Rule, list field.ErrorList) {
	slices.SortFunc(list, func(a, b *field.Error) int { return cmp.Compare(a.Error(), b.Error()) })
	f.err(rule, list...)
}

// warn adds a finding about a field in words of our own, which all warnings
// are.
func (f *findings) warn(rule Rule, path *field.Path, format string, args ...any) {
	*f = append(*f, finding{rule: rule, field: path.String(), message: fmt.Sprintf(format, args...)})
}
