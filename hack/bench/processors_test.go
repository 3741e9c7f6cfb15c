package main

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

func TestAProcessIsPlacedWithAllItsThreads(t *testing.T) {
	var all, one unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		t.Fatal(err)
	}
	for i := 0; one.Count() == 0; i++ {
		if all.IsSet(i) {
			one.Set(i)
		}
	}
	for _, on := range []*unix.CPUSet{&one, &all} {
		if err := place(os.Getpid(), on); err != nil {
			t.Fatal(err)
		}
		threads, err := filepath.Glob("/proc/self/task/*")
		if err != nil || len(threads) < 2 {
			t.Fatalf("threads %q, %v: the test proves nothing", threads, err)
		}
		for _, path := range threads {
			thread, err := strconv.Atoi(filepath.Base(path))
			if err != nil {
				t.Fatal(err)
			}
			var got unix.CPUSet
			if err := unix.SchedGetaffinity(thread, &got); err != nil {
				t.Fatal(err)
			}
			if got != *on {
				t.Errorf("thread %d has %d processors, want %d", thread, got.Count(), on.Count())
			}
		}
	}
}
