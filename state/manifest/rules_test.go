package manifest

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"text/template"

	"github.com/rogpeppe/go-internal/txtar"
)

// The rulebook has each constant of type Rule, and each once.
func TestRulebook(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "rules.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var constants, ids []string
	ast.Inspect(file, func(n ast.Node) bool {
		if v, ok := n.(*ast.ValueSpec); ok && fmt.Sprint(v.Type) == "Rule" {
			id, err := strconv.Unquote(v.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Error(err)
			}
			constants = append(constants, id)
		}
		return true
	})
	telling := regexp.MustCompile(`^[a-z]+(-[a-z]+)*$`)
	for _, info := range Rules() {
		ids = append(ids, string(info.ID))
		if !telling.MatchString(string(info.ID)) || info.Origin == "" || !strings.HasSuffix(info.Says, ".") {
			t.Errorf("%+v", info)
		}
	}
	slices.Sort(constants)
	slices.Sort(ids)
	if !slices.Equal(constants, ids) || len(slices.Compact(ids)) != len(constants) {
		t.Errorf("the constants are\n%q\nthe book has\n%q", constants, ids)
	}
}

// row is the example of a rule: testdata/rules/<id>.yaml, which is one file of
// manifests, or <id>.txtar, which is several.
//
// All findings are expected where they are found, in a comment on the line
// before, and no others; of a file that can't hold a comment they stand in a
// file named want, as they are printed. There may be several steps (see
// stepsOf). The line
//
//	# pointsman validate --service-cidr 10.96.0.0/16
//
// says what the files are judged by, if not by the ranges that the other tests
// have. Where a file would be long, it is a text/template.
type row struct {
	rule    Rule
	path    string
	archive *txtar.Archive
}

// company are the rules that a row of another rule breaks for being small.
var company = []Rule{ruleNoSlices, ruleNoService}

func readRows(t *testing.T) map[Rule]row {
	t.Helper()
	paths, err := filepath.Glob("testdata/rules/*")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[Rule]row{}
	for _, path := range paths {
		ext := filepath.Ext(path)
		r := row{rule: Rule(strings.TrimSuffix(filepath.Base(path), ext)), path: path}
		text := []byte(readText(t, path))
		switch ext {
		case ".yaml":
			r.archive = &txtar.Archive{Files: []txtar.File{{Name: "web.yaml", Data: text}}}
		case ".txtar":
			r.archive = txtar.Parse(text)
		}
		if _, known := severities[r.rule]; !known || r.archive == nil || rows[r.rule].path != "" {
			t.Errorf("%s is not the row of a rule, or not the only one", path)
		}
		rows[r.rule] = r
	}
	return rows
}

// Every rule has a row, and every row finds what it says, at that line. The
// flag -update writes the rows' comments, and then RULES.md.
func TestRules(t *testing.T) {
	rows := readRows(t)
	for _, info := range Rules() {
		r, ok := rows[info.ID]
		if !ok {
			t.Errorf("rule %s has no row", info.ID)
			continue
		}
		t.Run(string(info.ID), func(t *testing.T) {
			if *update {
				r.update(t)
				r = readRows(t)[info.ID]
			}
			r.check(t)
		})
	}
	checkRulesPage(t, readRows(t))
}

// check plays the steps of a row.
func (r row) check(t *testing.T) {
	steps := r.steps(t)
	results := r.play(t, steps)
	broken := false
	for i, step := range steps {
		got, want := r.shown(t, results[i]), step.expected(r.archive)
		if !slices.Equal(got, want) {
			t.Errorf("step %d:\n got %s\nwant %s", i+1, strings.Join(got, "\n     "), strings.Join(want, "\n     "))
		}
		broken = broken || slices.ContainsFunc(results[i].Problems, func(p Problem) bool { return p.Rule == r.rule })
	}
	if !broken {
		t.Errorf("%s does not break the rule", r.path)
	}
}

// steps gives the steps of a row, of which the last need not have a want.
func (r row) steps(t *testing.T) []goldenStep {
	t.Helper()
	if n := len(r.archive.Files); r.archive.Files[n-1].Name != "want" {
		r.archive.Files = append(r.archive.Files, txtar.File{Name: "want"})
	}
	steps := stepsOf(r.archive)
	for _, s := range steps {
		for name, text := range s.files {
			s.files[name] = expand(t, text)
		}
	}
	return steps
}

func expand(t *testing.T, text string) string {
	t.Helper()
	if !isTemplate(text) {
		return text
	}
	parsed, err := template.New("").Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := parsed.Execute(&b, nil); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func isTemplate(text string) bool { return strings.Contains(text, "{{") }

// lastGoodName is the file of a row that the process before left behind.
const lastGoodName = "last-good.yaml"

// play loads the steps one after the other, as one host that accepts each
// Result.
func (r row) play(t *testing.T, steps []goldenStep) []*Result {
	t.Helper()
	path := filepath.Join(t.TempDir(), lastGoodName)
	loader := NewLoader(r.config(t), path)
	var results []*Result
	for _, step := range steps {
		if text, ok := step.files[lastGoodName]; ok {
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			delete(step.files, lastGoodName)
		}
		result := loader.Load(snapshotOf(step.files))
		loader.Accept(result)
		for i := range result.Problems {
			if p := &result.Problems[i]; p.Source.File == path {
				p.Source.File = lastGoodName
			}
		}
		results = append(results, result)
	}
	return results
}

var judgedBy = regexp.MustCompile(`(?m)^# pointsman validate --service-cidr (\S+)$`)

func (r row) config(t *testing.T) Config {
	t.Helper()
	cfg := ranges
	if m := judgedBy.FindSubmatch(r.archive.Files[0].Data); m != nil {
		cidr, err := netip.ParsePrefix(string(m[1]))
		if err != nil {
			t.Fatal(err)
		}
		cfg.ServiceCIDRs = []netip.Prefix{cidr}
	}
	return cfg
}

// shown gives the problems that a row has to tell, as they are printed. Each
// has the severity of its rule.
func (r row) shown(t *testing.T, result *Result) []string {
	t.Helper()
	var lines []string
	for _, p := range result.Problems {
		if info, known := severities[p.Rule]; !known || info != p.Severity {
			t.Errorf("%s: severity %d and rule %q", p, p.Severity, p.Rule)
		}
		if p.Rule == r.rule || !slices.Contains(company, p.Rule) {
			lines = append(lines, p.String())
		}
	}
	slices.Sort(lines)
	return lines
}

// expected gives the problems that a step's comments and its want file tell.
func (s goldenStep) expected(a *txtar.Archive) []string {
	var lines []string
	for name, text := range s.files {
		for line, comments := range expected(text) {
			for _, c := range comments {
				lines = append(lines, fmt.Sprintf("%s:%d: %s", name, line, printed(c)))
			}
		}
	}
	for line := range strings.Lines(string(a.Files[s.want].Data)) {
		lines = append(lines, strings.TrimSuffix(line, "\n"))
	}
	slices.Sort(lines)
	return lines
}

// printed gives what is printed of a finding that a comment tells.
func printed(comment string) string {
	text := strings.TrimPrefix(strings.TrimPrefix(comment, "# "), "error: ")
	return strings.Replace(strings.TrimPrefix(text, ": "), "warning: : ", "warning: ", 1)
}

// update writes the comments of a row anew, unless it has several steps or
// is a template.
func (r row) update(t *testing.T) {
	t.Helper()
	files := r.archive.Files
	if slices.ContainsFunc(files, func(f txtar.File) bool { return f.Name == "want" || isTemplate(string(f.Data)) }) {
		return
	}
	for range 2 {
		comments := r.comments(t)
		for i, f := range files {
			files[i].Data = []byte(withComments(string(f.Data), comments[f.Name]))
		}
		r.archive.Files = files
	}
	data := files[0].Data
	if strings.HasSuffix(r.path, ".txtar") {
		data = txtar.Format(r.archive)
	}
	if err := os.WriteFile(r.path, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

// comments gives what a row finds, as comments by file and line.
func (r row) comments(t *testing.T) map[string]map[int][]string {
	t.Helper()
	comments := map[string]map[int][]string{}
	for _, p := range r.play(t, r.steps(t))[0].Problems {
		if p.Rule != r.rule && slices.Contains(company, p.Rule) {
			continue
		}
		if comments[p.Source.File] == nil {
			comments[p.Source.File] = map[int][]string{}
		}
		comments[p.Source.File][p.Source.Line] = append(comments[p.Source.File][p.Source.Line], commentOf(p))
	}
	return comments
}
