package main

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"text/template"

	"github.com/prometheus/prometheus/promql/parser"
	"go.yaml.in/yaml/v3"
)

const monitoring = "../../examples/monitoring"

// questions checks PromQL: it parses, and what it asks for is what the agent
// exports.
type questions struct {
	*testing.T
	metrics map[string]metric
	asked   map[string]bool
}

func newQuestions(t *testing.T) *questions {
	return &questions{t, readMetricsPage(t), map[string]bool{}}
}

// Prometheus adds these itself.
var scraped = []string{"job", "instance", "le"}

// check checks an expression, with what Grafana puts in for its variables.
func (q *questions) check(where, expr string) {
	q.Helper()
	tree, err := parser.NewParser(parser.Options{}).ParseExpr(strings.ReplaceAll(expr, "$__rate_interval", "5m"))
	if err != nil {
		q.Errorf("%s: %s: %v", where, expr, err)
		return
	}
	labels := slices.Clone(scraped)
	parser.Inspect(tree, func(n parser.Node, _ []parser.Node) error {
		if v, ok := n.(*parser.VectorSelector); ok {
			has := q.selector(where, v)
			labels = append(labels, has...)
		}
		return nil
	})
	parser.Inspect(tree, func(n parser.Node, _ []parser.Node) error {
		var names []string
		switch n := n.(type) {
		case *parser.AggregateExpr:
			names = n.Grouping
		case *parser.BinaryExpr:
			if n.VectorMatching != nil {
				names = n.VectorMatching.MatchingLabels
			}
		}
		for _, l := range names {
			if !slices.Contains(labels, l) {
				q.Errorf("%s: %s: nothing has a label %s", where, expr, l)
			}
		}
		return nil
	})
}

// selector checks that a metric is there with the labels that it's asked for by,
// and gives its labels.
func (q *questions) selector(where string, v *parser.VectorSelector) []string {
	q.Helper()
	if v.Name == "up" {
		return nil
	}
	name := v.Name
	if base := regexp.MustCompile(`_(bucket|count|sum)$`).ReplaceAllString(name, ""); q.metrics[base].kind == "histogram" {
		name = base
	}
	m, ok := q.metrics[name]
	if !ok || m.kind == "histogram" && name == v.Name {
		q.Errorf("%s: the agent has no metric %s", where, v.Name)
	}
	q.asked[name] = true
	labels := strings.Fields(strings.ReplaceAll(m.labels, "`", ""))
	for _, l := range v.LabelMatchers {
		if l.Name != "__name__" && !slices.Contains(labels, l.Name) && !slices.Contains(scraped, l.Name) {
			q.Errorf("%s: %s has no label %s", where, v.Name, l.Name)
		}
	}
	return labels
}

// ruleFile is a file of alerts; other fields than Prometheus knows are errors.
type ruleFile struct {
	Groups []struct {
		Name  string
		Rules []alertRule
	}
}

type alertRule struct {
	Alert, Expr         string
	For                 string
	Labels, Annotations map[string]string
}

func readStrict(t *testing.T, name string, into any) {
	t.Helper()
	d := yaml.NewDecoder(strings.NewReader(string(must[[]byte](t)(os.ReadFile(filepath.Join(monitoring, name))))))
	d.KnownFields(true)
	if err := d.Decode(into); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

// TestAlerts: the alerts ask for what there is, say what it means and what to do
// next, and each has a test (which promtool runs).
func TestAlerts(t *testing.T) {
	t.Parallel()
	q := newQuestions(t)
	var file ruleFile
	readStrict(t, "alerts.yaml", &file)
	tests := string(must[[]byte](t)(os.ReadFile(filepath.Join(monitoring, "alerts_test.yaml"))))
	known := map[string]bool{}
	for _, a := range file.Groups[0].Rules {
		q.check(a.Alert, a.Expr)
		if known[a.Alert] || !strings.HasPrefix(a.Alert, "Pointsman") {
			t.Errorf("%s: a name that is there twice, or isn't ours", a.Alert)
		}
		known[a.Alert] = true
		if !strings.Contains(tests, `alertname="`+a.Alert+`"`) {
			t.Errorf("%s is not tested in alerts_test.yaml", a.Alert)
		}
		if !slices.Contains([]string{"critical", "warning", "info"}, a.Labels["severity"]) {
			t.Errorf("%s: severity %q", a.Alert, a.Labels["severity"])
		}
		a.checkText(t)
	}
}

// command finds what is to be run next.
var command = regexp.MustCompile(`(pointsman [a-z]+|systemctl [a-z-]+)`)

// checkText: the texts are templates of Prometheus's, and name a command that
// there is.
func (a alertRule) checkText(t *testing.T) {
	t.Helper()
	texts := a.Annotations["summary"] + "\n" + a.Annotations["description"]
	same := func(v any) any { return v }
	funcs := template.FuncMap{"humanize": same, "humanizeDuration": same, "humanizePercentage": same}
	if _, err := template.New(a.Alert).Funcs(funcs).Parse(`{{$labels := .}}{{$value := 1}}` + texts); err != nil || len(a.Annotations) != 2 {
		t.Errorf("%s: %v %q", a.Alert, err, a.Annotations)
	}
	found := command.FindAllString(a.Annotations["description"], -1)
	if len(found) == 0 {
		t.Errorf("%s names no command", a.Alert)
	}
	app := app(io.Discard, io.Discard)
	for _, c := range found {
		if name, ours := strings.CutPrefix(c, "pointsman "); ours && app.Command(name) == nil {
			t.Errorf("%s: there's no command %s", a.Alert, c)
		}
	}
}

// dashboard is what is checked of Grafana's model.
type dashboard struct {
	Panels []struct {
		ID         int
		Type       string
		Title      string
		Datasource *datasource
		Targets    []struct {
			RefID, Expr string
			Datasource  datasource
		}
	}
	Templating struct {
		List []struct{ Name, Type, Definition string }
	}
}

type datasource struct{ UID string }

// TestDashboard: every panel asks for what there is, of a data source that is
// chosen where it's looked at; and no metric that matters is left out.
func TestDashboard(t *testing.T) {
	t.Parallel()
	q := newQuestions(t)
	var d dashboard
	if err := json.Unmarshal(must[[]byte](t)(os.ReadFile(filepath.Join(monitoring, "dashboard.json"))), &d); err != nil {
		t.Fatal(err)
	}
	ids, variables := map[int]bool{}, map[string]bool{}
	for _, v := range d.Templating.List {
		variables[v.Name] = true
		if m := regexp.MustCompile(`^label_values\((.*), (\w+)\)$`).FindStringSubmatch(v.Definition); m != nil {
			q.check("variable "+v.Name, "count by ("+m[2]+") ("+m[1]+")")
		} else if v.Type != "datasource" {
			t.Errorf("variable %s: %q", v.Name, v.Definition)
		}
	}
	variable := regexp.MustCompile(`\$\{?([a-z]\w*)`)
	for _, p := range d.Panels {
		if ids[p.ID] || p.ID == 0 {
			t.Errorf("%s: id %d is there twice", p.Title, p.ID)
		}
		ids[p.ID] = true
		if p.Type == "row" {
			continue
		}
		if p.Datasource == nil || p.Datasource.UID != "${datasource}" || len(p.Targets) == 0 {
			t.Errorf("%s: %+v", p.Title, p)
		}
		for _, target := range p.Targets {
			q.check(p.Title, target.Expr)
			for _, v := range variable.FindAllStringSubmatch(target.Expr+target.Datasource.UID, -1) {
				if !variables[v[1]] {
					t.Errorf("%s: no variable %s", p.Title, v[0])
				}
			}
		}
	}
	for name := range q.metrics {
		if !q.asked[name] && !slices.Contains(notShown, name) {
			t.Errorf("%s is on no panel", name)
		}
	}
}

// notShown are for looking into one host, or for other tools.
var notShown = []string{
	"pointsman_build_info", "pointsman_connection_pairs", "pointsman_connections_series_left_out", "pointsman_drains",
	"pointsman_gossip_exchanges_total", "pointsman_gossip_fetched_total", "pointsman_gossip_refused_messages_total", "pointsman_gossip_rejoins_total",
	"pointsman_loop_alive", "pointsman_manifests_polling", "pointsman_manifests_stale", "pointsman_probe_checks",
	"pointsman_proxy_healthz_total", "pointsman_proxy_livez_total", "pointsman_sync_failed", "pointsman_sync_refused",
	"pointsman_sync_proxy_rules_last_queued_timestamp_seconds", "pointsman_sync_proxy_rules_last_timestamp_seconds",
}
