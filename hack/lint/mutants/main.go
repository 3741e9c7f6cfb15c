package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

func main() {
	root := flag.String("root", ".", "folder of the repository")
	atOnce := flag.Int("at-once", 4, "number of mutants that are tested at once; many tests fail by waiting, which needs no processor")
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
	t := tester{root: root, overlays: overlays}
	controls := t.controls(list)
	failures := runAll(ctx, controls, atOnce, to)
	if t.cache, err = linkCache(ctx); err != nil {
		return err
	}
	defer os.RemoveAll(t.cache)
	failures += runAll(ctx, t.trials(list), atOnce, to)
	if ctx.Err() != nil {
		return fmt.Errorf("interrupted")
	}
	fmt.Fprintf(to, "%d mutants of %d packages, %d failures, in %d s\n", len(list), len(controls), failures, int(time.Since(began).Seconds()))
	if failures > 0 {
		return fmt.Errorf("%d failures: repair the tests, or the list", failures)
	}
	return nil
}

// job is a run of tests. Its error says what is wrong.
type job struct {
	name string
	run  func(context.Context) error
}

// controls returns a run of the unchanged code for each package, which must pass.
func (t tester) controls(list []mutant) (jobs []job) {
	patterns := map[string][]string{}
	for i := range list {
		patterns[list[i].pkg] = append(patterns[list[i].pkg], list[i].pattern())
	}
	for _, pkg := range slices.Sorted(maps.Keys(patterns)) {
		pattern := strings.Join(patterns[pkg], "|")
		jobs = append(jobs, job{pkg + " without a mutant", func(ctx context.Context) error { return t.control(ctx, pkg, pattern) }})
	}
	return jobs
}

// trials returns a run for each mutant.
func (t tester) trials(list []mutant) (jobs []job) {
	for i := range list {
		m := &list[i]
		jobs = append(jobs, job{fmt.Sprintf("%s by %s", m, m.test), func(ctx context.Context) error { return t.try(ctx, m) }})
	}
	return jobs
}

// runAll runs all jobs, some at once, and returns how many failed.
func runAll(ctx context.Context, jobs []job, atOnce int, to io.Writer) (failures int) {
	var mu sync.Mutex
	var workers sync.WaitGroup
	next := make(chan job)
	for range atOnce {
		workers.Go(func() {
			for j := range next {
				began := time.Now()
				err := j.run(ctx)
				mu.Lock()
				if err != nil && ctx.Err() == nil {
					failures++
					fmt.Fprintf(to, "FAILED %s: %v\n", j.name, err)
				} else if err == nil {
					fmt.Fprintf(to, "%3d s %s\n", int(time.Since(began).Seconds()), j.name)
				}
				mu.Unlock()
			}
		})
	}
	for _, j := range jobs {
		if ctx.Err() == nil {
			next <- j
		}
	}
	close(next)
	workers.Wait()
	return failures
}
