package main

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"examprep.dev/hack/bench/capacity"
)

// sample is what was measured of one thing; samples of several turns add up.
type sample struct {
	operations int
	elapsed    time.Duration
	// cpu is by process, in the order in which it is printed.
	cpu []spent
	// latencies may be none.
	latencies []time.Duration
}

type spent struct {
	process string
	cpu     time.Duration
}

// add puts another turn's measurement, of the same processes, to this one.
func (s *sample) add(other sample) {
	s.operations += other.operations
	s.elapsed += other.elapsed
	s.latencies = append(s.latencies, other.latencies...)
	if s.cpu == nil {
		s.cpu = slices.Clone(other.cpu)
		return
	}
	for i := range s.cpu {
		s.cpu[i].cpu += other.cpu[i].cpu
	}
}

// count adds an operation that took so long.
func (s *sample) count(took time.Duration) {
	s.operations++
	s.elapsed += took
	s.latencies = append(s.latencies, took)
}

// rate is in operations/s.
func (s *sample) rate() float64 { return float64(s.operations) / s.elapsed.Seconds() }

// micros is the CPU-µs that an operation cost the named processes.
func (s *sample) micros(processes ...string) float64 {
	var total time.Duration
	for _, p := range s.cpu {
		if slices.Contains(processes, p.process) {
			total += p.cpu
		}
	}
	return float64(total) / float64(time.Microsecond) / float64(max(s.operations, 1))
}

// percentile is of the latencies; 0 if there are none. share is between 0 and 1.
func (s *sample) percentile(share float64) time.Duration {
	if len(s.latencies) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(s.latencies))
	return sorted[min(len(sorted)-1, int(share*float64(len(sorted))))]
}

// median is of an odd number of figures: one turn in which the machine stood still does not decide.
func median[T cmp.Ordered](all []T) T { return slices.Sorted(slices.Values(all))[len(all)/2] }

// verdict compares a measured value with its bar, which a release must meet, and its goal.
type verdict struct {
	what, unit    string
	measured, bar float64
	// goal is 0 where there is none.
	goal float64
	// least reports that bar and goal are minima; otherwise they are maxima.
	least bool
}

// meets returns "met" or "missed".
func (v verdict) meets(limit float64) string {
	if v.least && v.measured >= limit || !v.least && v.measured <= limit {
		return "met"
	}
	return "missed"
}

// report collects rows and verdicts in the order in which they are found.
type report struct {
	title    string
	rows     [][]string
	verdicts []verdict
	notes    []string
	// uses are for the plot.
	uses []capacity.Use
}

// row adds a measurement.
func (r *report) row(name string, s *sample) {
	var costs []string
	for _, p := range s.cpu {
		costs = append(costs, fmt.Sprintf("%s %.1f", p.process, s.micros(p.process)))
	}
	r.rows = append(r.rows, []string{
		name, fmt.Sprintf("%.0f", s.rate()), brief(s.percentile(0.5)), brief(s.percentile(0.99)), strings.Join(costs, " + "),
	})
}

func brief(d time.Duration) string {
	if d == 0 {
		return "–"
	}
	return fmt.Sprintf("%.2f ms", d.Seconds()*1000)
}

// use notes for the plot what an operation costs the named processes.
func (r *report) use(operation string, s series, processes ...string) {
	for _, process := range processes {
		r.uses = append(r.uses, capacity.Use{Operation: operation, Process: process, Micros: s.micros(process)})
	}
}

func (r *report) judge(v verdict) { r.verdicts = append(r.verdicts, v) }

func (r *report) notef(format string, args ...any) {
	r.notes = append(r.notes, fmt.Sprintf(format, args...))
}

// print writes both tables.
func (r *report) print(out io.Writer) error {
	var text strings.Builder
	fmt.Fprintf(&text, "\n%s\n\n", r.title)
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "measured\tper second\tp50\tp99\tCPU-µs each, by process")
	for _, row := range r.rows {
		fmt.Fprintln(table, strings.Join(row, "\t"))
	}
	fmt.Fprintln(table, "\t\t\t\t")
	_ = table.Flush() // a strings.Builder takes everything
	table = tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "figure\tmeasured\tbar\t\tgoal\t")
	for _, v := range r.verdicts {
		sign := "≤"
		if v.least {
			sign = "≥"
		}
		fmt.Fprintf(table, "%s\t%.2f%s\t%s %g%s\t%s", v.what, v.measured, v.unit, sign, v.bar, v.unit, v.meets(v.bar))
		if v.goal != 0 {
			fmt.Fprintf(table, "\t%s %g%s\t%s", sign, v.goal, v.unit, v.meets(v.goal))
		}
		fmt.Fprintln(table)
	}
	_ = table.Flush()
	for _, note := range r.notes {
		fmt.Fprintf(&text, "\n%s\n", note)
	}
	_, err := io.WriteString(out, text.String())
	return err
}

// columns lays out rows whose cells are separated by bars.
func columns(rows []string) string {
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(table, strings.ReplaceAll(row, "|", "\t"))
	}
	_ = table.Flush() // a strings.Builder takes everything
	return strings.TrimRight(text.String(), "\n")
}

// draw writes the plot of the uses into a file, unless its name is empty.
func (r *report) draw(name string) error {
	if name == "" {
		return nil
	}
	var text bytes.Buffer
	if err := capacity.Plot(&text, r.uses); err != nil {
		return err
	}
	return os.WriteFile(name, text.Bytes(), 0o644)
}
