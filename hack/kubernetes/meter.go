package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

const (
	// lineEvery is how often progress is told where it cannot be drawn over: in a log.
	lineEvery = 20 * time.Second
	// drawEvery is how often it is drawn on a terminal.
	drawEvery = 200 * time.Millisecond
	// keptComplaints is how many lines of a failed build are shown.
	keptComplaints = 40
)

// meter reads what `go build -v` writes to standard error, one import path a line as each package is begun, and shows
// how far the build is. Lines that are no import path are the compiler's complaints; it keeps the last of them.
type meter struct {
	out      io.Writer
	name     string
	terminal bool
	done     chan struct{}
	stopped  chan struct{}

	mu        sync.Mutex
	total     int // packages to be compiled; unknown while negative
	partial   []byte
	packages  int
	complaint []string
}

// newMeter shows progress on out until stop.
func newMeter(out io.Writer, name string) *meter {
	m := &meter{out: out, name: name, total: -1, terminal: isTerminal(out), done: make(chan struct{}), stopped: make(chan struct{})}
	go m.show()
	return m
}

// expect tells how many packages will be compiled.
func (m *meter) expect(total int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.total = total
}

// Write takes the output of go build -v.
func (m *meter) Write(p []byte) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.partial = append(m.partial, p...)
	for {
		line, rest, found := bytes.Cut(m.partial, []byte{'\n'})
		if !found {
			return len(p), nil
		}
		m.take(string(line))
		m.partial = rest
	}
}

func (m *meter) take(line string) {
	switch {
	case isImportPath(line):
		m.packages++
	case strings.TrimSpace(line) != "":
		m.complaint = append(m.complaint, line)
		if len(m.complaint) > keptComplaints {
			m.complaint = m.complaint[1:]
		}
	}
}

// isImportPath tells a package's line from a compiler's complaint, which has spaces, or begins with #, or ends in a colon.
func isImportPath(line string) bool {
	return line != "" && !strings.ContainsAny(line, " \t#:") && !strings.HasPrefix(line, "-")
}

// complaints are the last lines that were not progress.
func (m *meter) complaints() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return strings.Join(m.complaint, "\n")
}

// String is the state in words: "kube-apiserver 312/1480 packages".
func (m *meter) String() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.total < 0:
		return m.name + " resolving packages, downloading what is missing"
	case m.total > m.packages:
		return fmt.Sprintf("%s %d/%d packages", m.name, m.packages, m.total)
	case m.packages > 0:
		return fmt.Sprintf("%s %d packages, linking", m.name, m.packages)
	default:
		return m.name + " linking"
	}
}

// stop ends the showing; the last state stays.
func (m *meter) stop() {
	close(m.done)
	<-m.stopped
}

func (m *meter) show() {
	defer close(m.stopped)
	every := lineEvery
	if m.terminal {
		every = drawEvery
	}
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-m.done:
			if m.terminal {
				fmt.Fprintf(m.out, "\r\x1b[K")
			}
			return
		case <-ticker.C:
			if m.terminal {
				fmt.Fprintf(m.out, "\r\x1b[Kkubernetes: %s", m)
			} else {
				fmt.Fprintf(m.out, "kubernetes: %s\n", m)
			}
		}
	}
}

// isTerminal reports whether out is a character device that is not the null device.
func isTerminal(out io.Writer) bool {
	file, ok := out.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err == nil && !os.SameFile(info, null)
}
