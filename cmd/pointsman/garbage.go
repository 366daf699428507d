package main

import (
	"os"
	"runtime"
	"runtime/debug"
)

// gcPercent trades a tenth more CPU time at the start for a sixth less memory
// at its peak, which is what a cgroup's limit is about: 360 MiB instead of 420
// for 10,000 Services with 100,000 endpoints.
const gcPercent = 50

// ballast is memory that nobody touches, so that it's in no page: it makes the
// heap of a small agent a larger one to the garbage collector. memberlist reads
// each packet into 64 KiB of its own, and a heap of 2 MiB is full of those every
// three seconds: that took a fifth of an idle agent's CPU time. It costs 4 MiB.
const ballast = 8 << 20

// tuneGC sets the garbage collector, unless GOGC does, until the function that it
// gives is called.
func tuneGC() (end func()) {
	if os.Getenv("GOGC") != "" {
		return func() {}
	}
	debug.SetGCPercent(gcPercent)
	weight := make([]byte, ballast)
	return func() { runtime.KeepAlive(weight) }
}
