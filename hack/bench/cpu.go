package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of CPU times in /proc: USER_HZ is 100 on every Linux that Go runs on.
const tick = 10 * time.Millisecond

// watched is a process whose CPU time is read.
type watched struct {
	name string
	pid  int
	// tree counts its children too, those that run and those that have ended: PostgreSQL works in them.
	tree bool
}

// watch measures CPU and time from startWatch to stop.
type watch struct {
	processes []watched
	before    []time.Duration
	began     time.Time
}

func startWatch(processes ...watched) (*watch, error) {
	w := &watch{processes: processes}
	var err error
	if w.before, err = w.read(); err != nil {
		return nil, err
	}
	w.began = time.Now()
	return w, nil
}

// stop returns what was spent since; the caller adds operations and latencies.
func (w *watch) stop() (sample, error) {
	s := sample{elapsed: time.Since(w.began)}
	after, err := w.read()
	if err != nil {
		return s, err
	}
	for i, p := range w.processes {
		s.cpu = append(s.cpu, spent{p.name, after[i] - w.before[i]})
	}
	return s, nil
}

func (w *watch) read() ([]time.Duration, error) {
	times := make([]time.Duration, len(w.processes))
	for i, p := range w.processes {
		stat, err := readStat(p.pid)
		if err != nil {
			return nil, fmt.Errorf("read the CPU time of %s: %w", p.name, err)
		}
		times[i] = stat.own
		if p.tree {
			living, err := children(p.pid)
			if err != nil {
				return nil, fmt.Errorf("read the CPU time of %s: %w", p.name, err)
			}
			times[i] += stat.ended + living
		}
	}
	return times, nil
}

// processStat is what we read of /proc/PID/stat.
type processStat struct {
	parent int
	// own is the process's time, ended that of its children that have ended and were waited for.
	own, ended time.Duration
}

func readStat(pid int) (processStat, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return processStat{}, err
	}
	return parseStat(string(text))
}

// parseStat reads the fields after the program's name, which stands in parentheses and may hold anything.
func parseStat(text string) (processStat, error) {
	const parent, user, system, endedUser, endedSystem = 1, 11, 12, 13, 14
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	if len(fields) <= endedSystem {
		return processStat{}, fmt.Errorf("/proc stat has %d fields", len(fields))
	}
	var numbers [endedSystem + 1]int64
	for _, at := range []int{parent, user, system, endedUser, endedSystem} {
		var err error
		if numbers[at], err = strconv.ParseInt(fields[at], 10, 64); err != nil {
			return processStat{}, fmt.Errorf("/proc stat: %w", err)
		}
	}
	return processStat{
		parent: int(numbers[parent]),
		own:    time.Duration(numbers[user]+numbers[system]) * tick,
		ended:  time.Duration(numbers[endedUser]+numbers[endedSystem]) * tick,
	}, nil
}

// children adds up the CPU time of a process's living children.
func children(parent int) (time.Duration, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return 0, err
	}
	var total time.Duration
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue // no process
		}
		if stat, err := readStat(pid); err == nil && stat.parent == parent { // it may just have ended
			total += stat.own
		}
	}
	return total, nil
}

// machineTime is what the kernel counts of all processors, in ticks: what there was, and what of it the host gave to other
// machines. Ratios are worth less where that is much: what is compared has waited at different moments.
type machineTime struct{ stolen, all float64 }

// readMachine is zero where the kernel does not say.
func readMachine() (now machineTime) {
	const stolenField = 7
	text, _ := os.ReadFile("/proc/stat") // a courtesy to the reader
	line, _, _ := strings.Cut(string(text), "\n")
	for i, field := range strings.Fields(strings.TrimPrefix(line, "cpu ")) {
		ticks, err := strconv.ParseFloat(field, 64)
		if err != nil || i > stolenField { // what follows is counted before
			break
		}
		now.all += ticks
		if i == stolenField {
			now.stolen = ticks
		}
	}
	return now
}

// stolenSince is which share of the time since then others had.
func (m machineTime) stolenSince(before machineTime) float64 {
	return (m.stolen - before.stolen) / max(m.all-before.all, 1)
}
