package command

import (
	"os"
	"runtime/debug"
)

const (
	// workerGrowth is the worker's GOGC. Its live heap is a few MB; with Go's default, collections took a sixth of its CPU.
	workerGrowth = 400
	// operatorGrowth is the operator's GOGC. With Go's default, collections took a quarter of its CPU.
	operatorGrowth = 200
)

// collectRarely trades memory for CPU, up to GOMEMLIMIT. GOGC has precedence.
func collectRarely(growth int) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(growth)
	}
}
