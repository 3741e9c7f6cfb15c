package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// stillEvery is how often a long step says that it goes on.
const stillEvery = 20 * time.Second

// console tells a person what happens, each line with the seconds since the start.
type console struct {
	mu    sync.Mutex
	out   io.Writer
	began time.Time
}

func newConsole(out io.Writer) *console { return &console{out: out, began: time.Now()} }

// sayf prints a line, or several.
func (c *console) sayf(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	fmt.Fprintf(c.out, "[%6.1fs] %s\n", time.Since(c.began).Seconds(), fmt.Sprintf(format, args...))
}

// print writes text as it is.
func (c *console) print(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	fmt.Fprint(c.out, text)
}

// Write lets programs speak through the console, between its lines.
func (c *console) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.out.Write(p) //nolint:wrapcheck // io.Writer's own contract
}

// lineCounter counts the lines that are written to it and keeps the last of them: what `go build -v` says.
type lineCounter struct {
	mu    sync.Mutex
	lines int
	text  bytes.Buffer
}

const keptOutput = 32 << 10

// Write takes output.
func (l *lineCounter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines += bytes.Count(p, []byte{'\n'})
	l.text.Write(p)
	if excess := l.text.Len() - keptOutput; excess > 0 {
		l.text.Next(excess)
	}
	return len(p), nil
}

func (l *lineCounter) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lines
}

// complaints are the kept lines that are not the bare import paths of progress.
func (l *lineCounter) complaints() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var kept []string
	for line := range strings.Lines(l.text.String()) {
		if strings.ContainsAny(line, " #:") {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "")
}

// still calls tell every stillEvery until ctx ends or the returned function is called.
func still(ctx context.Context, tell func()) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		ticker := time.NewTicker(stillEvery)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				tell()
			}
		}
	}()
	return func() { cancel(); <-done }
}
