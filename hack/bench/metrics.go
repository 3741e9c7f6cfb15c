package main

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// metrics are the values of a process's series, by their text.
type metrics map[string]float64

func parseMetrics(text []byte) metrics {
	found := metrics{}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		at := strings.LastIndexByte(line, ' ')
		if at < 0 || line[0] == '#' {
			continue
		}
		if value, err := strconv.ParseFloat(line[at+1:], 64); err == nil {
			found[line[:at]] = value
		}
	}
	return found
}

// sum adds up the series of a name that hold all the given label pairs, such as `verb="APPLY"`.
func (m metrics) sum(name string, labels ...string) (total float64) {
series:
	for series, value := range m {
		if series != name && !strings.HasPrefix(series, name+"{") {
			continue
		}
		for _, label := range labels {
			if !strings.Contains(series, label) {
				continue series
			}
		}
		total += value
	}
	return total
}

// metricsOf reads the metrics of a process that was started under that name.
func (s *stack) metricsOf(ctx context.Context, process string) (metrics, error) {
	text, err := fetch(ctx, http.DefaultClient, http.MethodGet, "http://"+s.metrics[process]+"/metrics")
	if err != nil {
		return nil, fmt.Errorf("read the metrics of %s: %w", process, err)
	}
	return parseMetrics(text), nil
}

// poll asks until something is so.
func poll(ctx context.Context, what string, so func() (bool, error)) error {
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	for {
		if is, err := so(); is || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait until %s: %w", what, context.Cause(ctx))
		case <-ticker.C:
		}
	}
}

// pollEvery is the pause between two checks.
const pollEvery = 20 * time.Millisecond
