package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
)

// redisCalls are the commands that clients have sent to Redis, by name. What a script calls counts as well.
type redisCalls map[string]int64

// countCalls reads them. Reading is a call too: INFO is left out.
func (s *stack) countCalls(ctx context.Context) (redisCalls, error) {
	text, err := s.redis.Info(ctx, "commandstats").Result()
	if err != nil {
		return nil, fmt.Errorf("ask Redis for its counts: %w", err)
	}
	calls := redisCalls{}
	for line := range strings.Lines(text) {
		name, rest, found := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":calls=")
		if !found || name == "info" {
			continue
		}
		count, _, _ := strings.Cut(rest, ",")
		if calls[name], err = strconv.ParseInt(count, 10, 64); err != nil {
			return nil, fmt.Errorf("read the count of %s: %w", name, err)
		}
	}
	return calls, nil
}

// scripts is how many of them are script calls: what the gate sends.
func (c redisCalls) scripts() int64 { return c["evalsha"] + c["fcall"] }

// total is how many there are in all.
func (c redisCalls) total() (n int64) {
	for _, count := range c {
		n += count
	}
	return n
}
