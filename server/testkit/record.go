package testkit

import (
	"bytes"
	"sync"
)

// Record keeps the output of servers and processes. All goroutines can use it. The zero value is empty.
type Record struct {
	mu      sync.Mutex
	written bytes.Buffer
}

// Write appends p.
func (r *Record) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.written.Write(p)
}

// Bytes returns a copy of the content.
func (r *Record) Bytes() []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	return bytes.Clone(r.written.Bytes())
}

// String returns the content.
func (r *Record) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.written.String()
}

// Reset empties the record.
func (r *Record) Reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.written.Reset()
}
