package command

import (
	"os"
	"runtime/debug"
)

// roomyGrowth is the worker's GOGC. What it holds at a time is small, a few MB, and what it makes for each try is not: with
// Go's own default it collected so often that this was a sixth of its CPU. Now its heap grows to five times what is live,
// and no further than GOMEMLIMIT, which the chart sets to nine tenths of the pod's memory limit.
const roomyGrowth = 400

// collectRarely trades memory for CPU. GOGC has precedence.
func collectRarely() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(roomyGrowth)
	}
}
