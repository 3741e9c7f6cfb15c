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

// allocating runs a turn and adds what the process allocated meanwhile to total.
func (s *stack) allocating(ctx context.Context, process string, total *float64, turn func() (sample, error)) (sample, error) {
	before, err := s.countAllocations(ctx, process)
	if err != nil {
		return sample{}, err
	}
	measured, err := turn()
	if err != nil {
		return sample{}, err
	}
	after, err := s.countAllocations(ctx, process)
	*total += after - before
	return measured, err
}
