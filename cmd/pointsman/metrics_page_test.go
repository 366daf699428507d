package main

import (
	"bytes"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

var update = flag.Bool("update", false, "write METRICS.md anew")

const metricsPage = "../../examples/monitoring/METRICS.md"

const metricsIntro = `<!-- Made by go test -run TestWatched -update ./cmd/pointsman: don't edit. -->

# Metrics

What ` + "`/metrics`" + ` of the agent has (` + "`--metrics-listen`" + `, 127.0.0.1:10249), beside Go's own (` + "`go_`, `process_`" + `).
Names end as kube-proxy's do where they tell the same. No label has more values than there are words for them in the program, but
for those of connections: ` + "`--connection-metrics-limit`" + ` bounds their series.

| metric | type | labels | what it tells |
|---|---|---|---|
`

// metric is one family of metrics, as the page has it.
type metric struct{ name, kind, help, labels string }

func (m metric) row() string {
	return fmt.Sprintf("| `%s` | %s | %s | %s |\n", m.name, m.kind, m.labels, m.help)
}

// checkMetricsPage: the page is what a real agent exports.
func (a *daemon) checkMetricsPage(t *testing.T) {
	t.Helper()
	_, body, err := a.get("http://127.0.0.1:10249/metrics")
	if err != nil {
		t.Fatal(err)
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	var page strings.Builder
	page.WriteString(metricsIntro)
	for _, name := range slices.Sorted(maps.Keys(families)) {
		f := families[name]
		if !strings.HasPrefix(name, "pointsman_") {
			continue
		}
		labels := map[string]bool{}
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				labels["`"+l.GetName()+"`"] = true
			}
		}
		page.WriteString(metric{name, strings.ToLower(f.GetType().String()), f.GetHelp(), strings.Join(slices.Sorted(maps.Keys(labels)), " ")}.row())
	}
	if *update {
		if err := os.WriteFile(metricsPage, []byte(page.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if text := must[[]byte](t)(os.ReadFile(metricsPage)); string(text) != page.String() {
		t.Errorf("METRICS.md is not what the agent exports: run go test -run TestWatched -update ./cmd/pointsman\n%s", page.String())
	}
}

// readMetricsPage gives the metrics by name.
func readMetricsPage(t *testing.T) map[string]metric {
	t.Helper()
	all := map[string]metric{}
	for line := range strings.Lines(string(must[[]byte](t)(os.ReadFile(metricsPage)))) {
		c := strings.Split(line, " | ")
		if len(c) != 4 || !strings.HasPrefix(line, "| `") {
			continue
		}
		m := metric{strings.Trim(c[0], "| `"), c[1], strings.TrimSuffix(strings.TrimSpace(c[3]), " |"), c[2]}
		all[m.name] = m
	}
	return all
}
