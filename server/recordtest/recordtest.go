// Package recordtest keeps what a test's servers and processes write while the test reads it.
package recordtest

import (
	"bytes"
	"sync"
)

// Record keeps what was written to it, by any goroutine. The zero value is empty.
type Record struct {
	mu      sync.Mutex
	written bytes.Buffer
}

// Write adds p.
func (r *Record) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.written.Write(p)
}

// Bytes is a copy of what was written so far.
func (r *Record) Bytes() []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	return bytes.Clone(r.written.Bytes())
}

// String is what was written so far.
func (r *Record) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.written.String()
}

// Reset forgets what was written.
func (r *Record) Reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.written.Reset()
}
