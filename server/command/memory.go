package command

import (
	"os"
	"runtime/debug"
)

const (
	// workerGrowth is the worker's GOGC. What it holds at a time is small, a few MB, and what it makes for each try is not:
	// with Go's own default it collected so often that this was a sixth of its CPU. Now its heap grows to five times what is
	// live, and no further than GOMEMLIMIT, which the chart sets to nine tenths of the pod's memory limit.
	workerGrowth = 400
	// operatorGrowth is the operator's. It holds five KB of each of up to tens of thousands of resources, which each collection
	// looks at, and makes a hundred times as much of each that it publishes: with the default that was a quarter of its CPU.
	operatorGrowth = 200
)

// collectRarely trades memory for CPU. GOGC has precedence.
func collectRarely(growth int) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(growth)
	}
}
