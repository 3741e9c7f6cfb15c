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
	// lineEvery is the interval of progress lines in a log.
	lineEvery = 20 * time.Second
	// drawEvery is the interval at which the line on a terminal is replaced.
	drawEvery = 200 * time.Millisecond
	// keptComplaints is the number of lines of a failed build that are shown.
	keptComplaints = 40
)

// show prints the progress at intervals, on a terminal in one line, until stop is called.
func show(out io.Writer, progress fmt.Stringer) (stop func()) {
	every, format, end := lineEvery, "kubernetes: %s\n", ""
	if isTerminal(out) {
		every, format, end = drawEvery, "\r\x1b[Kkubernetes: %s", "\r\x1b[K"
	}
	done, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		for {
			select {
			case <-done:
				fmt.Fprint(out, end)
				return
			case <-ticker.C:
				fmt.Fprintf(out, format, progress)
			}
		}
	}()
	return func() {
		close(done)
		<-stopped
	}
}

// meter counts the packages that `go build -v` prints on standard error, one import path a line as the compiler begins
// with each. All other lines are the compiler's complaints; meter keeps the last ones.
type meter struct {
	name string

	mu        sync.Mutex
	total     int // packages to compile, negative while unknown
	partial   []byte
	packages  int
	complaint []string
}

func newMeter(name string) *meter { return &meter{name: name, total: -1} }

// expect sets the number of packages to compile.
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

// isImportPath reports whether a line is an import path. A complaint has spaces, begins with #, or ends in a colon.
func isImportPath(line string) bool {
	return line != "" && !strings.ContainsAny(line, " \t#:") && !strings.HasPrefix(line, "-")
}

// complaints returns the last lines that are not import paths.
func (m *meter) complaints() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return strings.Join(m.complaint, "\n")
}

// String returns the progress, such as "kube-apiserver 312/1480 packages".
func (m *meter) String() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.total < 0:
		return m.name + " resolving packages, downloading modules"
	case m.total > m.packages:
		return fmt.Sprintf("%s %d/%d packages", m.name, m.packages, m.total)
	case m.packages > 0:
		return fmt.Sprintf("%s %d packages, linking", m.name, m.packages)
	default:
		return m.name + " linking"
	}
}

// isTerminal reports whether out is a character device other than the null device.
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
