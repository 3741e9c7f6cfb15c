package main

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// figure reads one series of a process of ours, known by name.
func (s *stack) figure(ctx context.Context, process, series string) (float64, error) {
	text, err := fetch(ctx, http.DefaultClient, http.MethodGet, "http://"+s.metrics[process]+"/metrics")
	if err != nil {
		return 0, fmt.Errorf("ask %s for its figures: %w", process, err)
	}
	for line := range strings.Lines(string(text)) {
		if value, found := strings.CutPrefix(line, series+" "); found {
			return strconv.ParseFloat(strings.TrimSpace(value), 64)
		}
	}
	return 0, fmt.Errorf("%s does not tell its %s", process, series)
}

// countAllocations is how many objects a process has allocated since it began.
func (s *stack) countAllocations(ctx context.Context, process string) (float64, error) {
	return s.figure(ctx, process, "go_memstats_mallocs_total")
}

// allocator takes turns, and counts what a process allocates in them.
type allocator struct {
	stack   *stack
	process string
	turn    func(context.Context) (sample, error)

	objects    float64
	operations int
}

func (a *allocator) run(ctx context.Context) (sample, error) {
	before, err := a.stack.countAllocations(ctx, a.process)
	if err != nil {
		return sample{}, err
	}
	measured, err := a.turn(ctx)
	if err != nil {
		return sample{}, err
	}
	after, err := a.stack.countAllocations(ctx, a.process)
	a.objects += after - before
	a.operations += measured.operations
	return measured, err
}

// each is per operation.
func (a *allocator) each() float64 { return a.objects / float64(max(a.operations, 1)) }
