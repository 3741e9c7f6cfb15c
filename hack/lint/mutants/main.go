package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"
)

func main() {
	root := flag.String("root", ".", "folder of the repository")
	atOnce := flag.Int("at-once", 2, "number of mutants that are tested at once")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *root, flag.Args(), *atOnce, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

// run tests the mutants of the packages that patterns select. It prints a line for each, and the tests' output for those
// that are not caught.
func run(ctx context.Context, root string, patterns []string, atOnce int, to io.Writer) error {
	text, err := os.ReadFile(filepath.Join(root, "hack", "lint", "mutants.txt"))
	if err != nil {
		return err
	}
	list, err := parseMutants(string(text))
	if err != nil {
		return fmt.Errorf("hack/lint/mutants.txt: %w", err)
	}
	list = slices.DeleteFunc(list, func(m mutant) bool { return !m.selected(patterns) })
	if len(list) == 0 {
		return fmt.Errorf("no mutant of hack/lint/mutants.txt is of these packages")
	}
	overlays, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return err
	}
	defer os.RemoveAll(overlays)
	began := time.Now()
	survivors := testAll(ctx, tester{root: root, overlays: overlays}, list, atOnce, to)
	if ctx.Err() != nil {
		return fmt.Errorf("interrupted")
	}
	fmt.Fprintf(to, "%d mutants, %d not caught, in %d s\n", len(list), survivors, int(time.Since(began).Seconds()))
	if survivors > 0 {
		return fmt.Errorf("%d mutants are not caught: repair their tests, or the list", survivors)
	}
	return nil
}

// testAll tests all mutants, some at once, and returns how many were not caught.
func testAll(ctx context.Context, t tester, list []mutant, atOnce int, to io.Writer) (survivors int) {
	var mu sync.Mutex
	var workers sync.WaitGroup
	next := make(chan *mutant)
	for range atOnce {
		workers.Go(func() {
			for m := range next {
				began := time.Now()
				err := t.try(ctx, m)
				mu.Lock()
				if err != nil && ctx.Err() == nil {
					survivors++
					fmt.Fprintf(to, "NOT CAUGHT %s by %s %s: %v\n", m, m.pkg, m.test, err)
				} else if err == nil {
					fmt.Fprintf(to, "caught in %3d s: %s by %s\n", int(time.Since(began).Seconds()), m, m.test)
				}
				mu.Unlock()
			}
		})
	}
	for at := range list {
		if ctx.Err() == nil {
			next <- &list[at]
		}
	}
	close(next)
	workers.Wait()
	return survivors
}
