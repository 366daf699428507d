package manifest

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// manyFiles fills a directory as a fleet's repository is: a folder for each
// team, a file for each Service with its slices.
func manyFiles(tb testing.TB, n, teams int) string {
	tb.Helper()
	dir := tb.TempDir()
	body := bytes.Repeat([]byte("# a line of a manifest\n"), 50)
	for i := range n {
		team := filepath.Join(dir, fmt.Sprintf("team-%03d", i%teams))
		mustDo(tb, os.MkdirAll(team, 0o755))
		writeFile(tb, filepath.Join(team, fmt.Sprintf("service-%05d.yaml", i)), string(body))
	}
	return dir
}

// cpuTime is what the process has used, which other processes on the same
// machine disturb less than the time that passes.
func cpuTime(tb testing.TB) time.Duration {
	var r unix.Rusage
	mustDo(tb, unix.Getrusage(unix.RUSAGE_SELF, &r))
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

func BenchmarkLook(b *testing.B) {
	for _, c := range []struct{ files, teams int }{{10_000, 1}, {10_000, 100}, {10_000, 5_000}, {40_000, 100}} {
		b.Run(fmt.Sprintf("%d-in-%d", c.files, c.teams), func(b *testing.B) {
			tree := NewTree(manyFiles(b, c.files, c.teams))
			if _, err := tree.Read(b.Context()); err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			start := cpuTime(b)
			for b.Loop() {
				if tree.moved(nil) {
					b.Fatal("moved")
				}
			}
			b.ReportMetric(float64((cpuTime(b)-start).Microseconds())/float64(b.N)/1000, "cpu-ms/op")
		})
	}
}

// BenchmarkFirstRead reads all files of a tree.
func BenchmarkFirstRead(b *testing.B) {
	dir := manyFiles(b, 10_000, 100)
	for b.Loop() {
		if _, err := NewTree(dir).Read(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkPublish measures from the write of one file among 10,000 to the
// snapshot that has it. The quiet time is part of it: 250 ms are the floor.
func BenchmarkPublish(b *testing.B) {
	dir := manyFiles(b, 10_000, 100)
	benchmarkPublish(b, dir, func(i int) {
		writeFile(b, filepath.Join(dir, "team-007", "service-00007.yaml"), fmt.Sprint("# ", i))
	})
}

// BenchmarkFlip does the same for a swapped link, behind which all 10,000
// files are new ones and one is different.
func BenchmarkFlip(b *testing.B) {
	dir, source := b.TempDir(), os.DirFS(manyFiles(b, 10_000, 100))
	link := filepath.Join(dir, "current")
	for _, rev := range []string{"rev-0", "rev-1"} {
		mustDo(b, os.CopyFS(filepath.Join(dir, rev), source))
	}
	swapLink(b, "rev-0", link)
	benchmarkPublish(b, link, func(i int) {
		rev := fmt.Sprint("rev-", (i+1)%2)
		writeFile(b, filepath.Join(dir, rev, "team-007", "service-00007.yaml"), fmt.Sprint("# ", i))
		swapLink(b, rev, link)
	})
}

// benchmarkPublish measures from a change to its snapshot.
func benchmarkPublish(b *testing.B, dir string, change func(i int)) {
	b.Helper()
	w := NewWatcher(dir, WatchOptions{})
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan error)
	go func() { done <- w.Run(ctx) }()
	<-w.Changed()
	var took []time.Duration
	for b.Loop() {
		start := time.Now()
		change(len(took))
		<-w.Changed()
		took = append(took, time.Since(start))
	}
	cancel()
	if err := <-done; err != nil {
		b.Fatal(err)
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "ms-median")
	b.ReportMetric(float64(took[len(took)-1].Microseconds())/1000, "ms-max")
}
