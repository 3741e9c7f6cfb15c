package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// divideProcessors gives the machine's first processor to processes of the stack, and the others to this one, the load, and to
// what it starts, until they are asked to be free again; doc.go says why. A machine with one processor stays as it is.
func (s *stack) divideProcessors(names ...string) (free func() error, err error) {
	var all, first unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		return nil, fmt.Errorf("read this program's processors: %w", err)
	}
	if all.Count() < 2 {
		return func() error { return nil }, nil
	}
	rest := all
	for one := 0; first.Count() == 0; one++ {
		if all.IsSet(one) {
			first.Set(one)
			rest.Clear(one)
		}
	}
	servers, err := s.watched(names...)
	if err != nil {
		return nil, err
	}
	free = func() error { return errors.Join(placeAll(servers, &all), place(os.Getpid(), &all)) }
	if err := errors.Join(placeAll(servers, &first), place(os.Getpid(), &rest)); err != nil {
		return nil, errors.Join(err, free())
	}
	return free, nil
}

func placeAll(processes []watched, on *unix.CPUSet) error {
	for _, p := range processes {
		if err := place(p.pid, on); err != nil {
			return fmt.Errorf("give %s its processor: %w", p.name, err)
		}
	}
	return nil
}

// place has all threads of a process run there. New ones, and processes that it starts, run where the thread does that makes
// them; threads that were made meanwhile are found by another look.
func place(pid int, on *unix.CPUSet) error {
	placed := map[int]bool{}
	for before := -1; before != len(placed); {
		before = len(placed)
		threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
		if err != nil {
			return err
		}
		for _, entry := range threads {
			thread, err := strconv.Atoi(entry.Name())
			if err != nil || placed[thread] {
				continue
			}
			if err := unix.SchedSetaffinity(thread, on); err != nil && !errors.Is(err, unix.ESRCH) { // it has ended
				return fmt.Errorf("thread %d: %w", thread, err)
			}
			placed[thread] = true
		}
	}
	return nil
}
