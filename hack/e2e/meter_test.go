//go:build e2e

package e2e

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"
)

// meter counts requests and keeps how long each took.
type meter struct {
	mu    sync.Mutex
	began time.Time
	ops   map[string]*opMeter
}

type opMeter struct {
	took     []time.Duration
	statuses map[int]int
}

func newMeter() *meter { return &meter{began: time.Now(), ops: map[string]*opMeter{}} }

// record counts one answer; status 0 is none.
func (m *meter) record(op string, status int, took time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ops[op] == nil {
		m.ops[op] = &opMeter{statuses: map[int]int{}}
	}
	m.ops[op].took = append(m.ops[op].took, took)
	m.ops[op].statuses[status]++
}

// count adds up the answers whose status satisfies want.
func (m *meter) count(want func(status int) bool) int {
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
func (m *meter) String() string {
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
	return text.String()
}
