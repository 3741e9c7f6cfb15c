package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
)

// redisInfo reads one whole number of what Redis tells of itself.
func (s *stack) redisInfo(ctx context.Context, section, field string) (int64, error) {
	text, err := s.redis.Info(ctx, section).Result()
	if err != nil {
		return 0, fmt.Errorf("ask Redis for its figures: %w", err)
	}
	for line := range strings.Lines(text) {
		if value, found := strings.CutPrefix(line, field+":"); found {
			return strconv.ParseInt(strings.TrimSpace(value), 10, 64)
		}
	}
	return 0, fmt.Errorf("no %s among the figures of Redis", field)
}

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
