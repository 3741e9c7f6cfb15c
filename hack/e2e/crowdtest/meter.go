package crowdtest

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"
)

// Meter counts requests and keeps how long each took.
type Meter struct {
	mu    sync.Mutex
	began time.Time
	ops   map[string]*opMeter
	// failures describe the first requests that were not answered 200.
	failures []string
}

// maxFailures is how many failed requests are described.
const maxFailures = 10

type opMeter struct {
	took     []time.Duration
	statuses map[int]int
}

// NewMeter returns a meter that begins now.
func NewMeter() *Meter { return &Meter{began: time.Now(), ops: map[string]*opMeter{}} }

// record counts one answer; status 0 is none. failure describes an answer other than 200, or why there is none.
func (m *Meter) record(op string, status int, took time.Duration, failure error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ops[op] == nil {
		m.ops[op] = &opMeter{statuses: map[int]int{}}
	}
	m.ops[op].took = append(m.ops[op].took, took)
	m.ops[op].statuses[status]++
	if status != http.StatusOK && len(m.failures) < maxFailures {
		m.failures = append(m.failures, fmt.Sprintf("%s after %s, at %s: %d %v",
			op, took.Round(time.Millisecond), time.Now().UTC().Format("15:04:05.000"), status, failure))
	}
}

// Failed counts the requests that were not answered 200.
func (m *Meter) Failed() int {
	return m.Count(func(status int) bool { return status != http.StatusOK })
}

// Count adds up the answers whose status satisfies want.
func (m *Meter) Count(want func(status int) bool) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	total := 0
	for _, op := range m.ops {
		for status, n := range op.statuses {
			if want(status) {
				total += n
			}
		}
	}
	return total
}

// String is a table: requests/s and latencies per endpoint.
func (m *Meter) String() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	seconds := time.Since(m.began).Seconds()
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "endpoint\trequests\trequests/s\tp50\tp99\tmax\tstatuses")
	for _, name := range slices.Sorted(maps.Keys(m.ops)) {
		op := m.ops[name]
		sorted := slices.Sorted(slices.Values(op.took))
		at := func(share float64) time.Duration {
			return sorted[min(len(sorted)-1, int(share*float64(len(sorted))))].Round(10 * time.Microsecond)
		}
		_, _ = fmt.Fprintf(table, "%s\t%d\t%.0f\t%s\t%s\t%s\t%v\n",
			name, len(sorted), float64(len(sorted))/seconds, at(0.5), at(0.99), at(1), op.statuses)
	}
	_ = table.Flush()
	for _, failure := range m.failures {
		_, _ = fmt.Fprintln(&text, failure)
	}
	return text.String()
}
