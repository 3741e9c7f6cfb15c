// Package race tells tests whether the race detector is on. Tests that enumerate a whole space, in one goroutine, then
// visit a sample of it: the detector finds nothing there, and takes ten times as long. `make test` runs them whole without
// it. The package imports nothing.
package race
