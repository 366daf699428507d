package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"

	"github.com/prometheus/client_golang/prometheus"

	"pointsman/state/gitsync"
)

// syncDest gives the directory that `pointsman sync` publishes to, where the
// manifests are what it published; "" where they come some other way.
func syncDest(manifests string) string {
	manifests, err := filepath.Abs(manifests)
	if err != nil {
		return "" // there's no working directory
	}
	for dir := manifests; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if filepath.Base(dir) != gitsync.CurrentLink {
			continue
		}
		if _, err := gitsync.ReadStatus(filepath.Dir(dir)); !errors.Is(err, fs.ErrNotExist) {
			return filepath.Dir(dir)
		}
	}
	return ""
}

// syncStatus gives what `pointsman sync` says of the manifests; nil where they
// aren't its.
func syncStatus(manifests string) (*gitsync.Status, error) {
	dest := syncDest(manifests)
	if dest == "" {
		return nil, nil
	}
	status, err := gitsync.ReadStatus(dest)
	return &status, err
}

// syncText says what is wrong with the sync, "" if nothing is.
func syncText(s *gitsync.Status, err error) string {
	switch {
	case err != nil:
		return err.Error()
	case s == nil || s.Error == "":
		return ""
	case s.Refused != nil:
		return s.Refused.Error()
	}
	return s.Error
}

// showSync writes the lines of status about the sync.
func showSync(w io.Writer, s *gitsync.Status) {
	if s == nil {
		return
	}
	fmt.Fprintf(w, "sync\t%s of %s, last well %s\n", s.Ref, s.Repo, orDash(timeText(s.Succeeded)))
	if text := syncText(s, nil); text != "" {
		fmt.Fprintf(w, "trouble\tsync: %s\n", text)
	}
}

// syncMetrics reads the status of the sync when it's asked.
type syncMetrics struct {
	manifests                  string
	failed, refused, succeeded *prometheus.Desc
}

func newSyncMetrics(manifests string) *syncMetrics {
	desc := func(name, help string) *prometheus.Desc { return prometheus.NewDesc(name, help, nil, nil) }
	return &syncMetrics{
		manifests: manifests,
		failed:    desc("pointsman_sync_failed", "1 while the last run of pointsman sync failed, or its status can't be read."),
		refused:   desc("pointsman_sync_refused", "1 while the newest commit is refused."),
		succeeded: desc("pointsman_sync_last_success_timestamp_seconds", "When pointsman sync last had the newest commit published."),
	}
}

// Describe makes it a prometheus.Collector.
func (m *syncMetrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.failed, m.refused, m.succeeded} {
		ch <- d
	}
}

// Collect makes it a prometheus.Collector. Where there's no sync there are no
// metrics of it.
func (m *syncMetrics) Collect(ch chan<- prometheus.Metric) {
	status, err := syncStatus(m.manifests)
	if status == nil && err == nil {
		return
	}
	gauge := func(d *prometheus.Desc, v float64) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v)
	}
	flag := func(d *prometheus.Desc, on bool) {
		if on {
			gauge(d, 1)
		} else {
			gauge(d, 0)
		}
	}
	flag(m.failed, syncText(status, err) != "")
	flag(m.refused, err == nil && status.Refused != nil)
	if err == nil && !status.Succeeded.IsZero() {
		gauge(m.succeeded, float64(status.Succeeded.Unix()))
	}
}
