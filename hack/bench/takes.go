package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"examprep.dev/hack/bench/baseline"
)

const (
	// keysPerCall is how many keys one call of the script carries.
	keysPerCall = 16
	// placeholder is what redis-benchmark replaces by 12 digits, which are as long as a key's field.
	placeholder = "__rand_int__"
	// takeBuckets is the hash of the baseline's buckets.
	takeBuckets = "bench:takes"
	// takeClients is redis-benchmark's default number of connections.
	takeClients = 50
	replySize   = 10
)

// takeLoad calls baseline/take.lua by redis-benchmark.
type takeLoad struct {
	stack     *stack
	benchmark string // path of redis-benchmark
	sha       string
	// redis-benchmark 7 misreads a URL without a user.
	host, port, password string
}

// newTakeLoad loads the script and checks that it grants a token to each key of a call.
func (s *stack) newTakeLoad(ctx context.Context) (*takeLoad, error) {
	l := &takeLoad{stack: s}
	at, err := redis.ParseURL(s.redisURL)
	if err != nil {
		return nil, err
	}
	l.password = at.Password
	if l.host, l.port, err = net.SplitHostPort(at.Addr); err != nil {
		return nil, err
	}
	if l.benchmark, err = exec.LookPath("redis-benchmark"); err != nil {
		return nil, fmt.Errorf("find redis-benchmark, which Debian has in redis-tools: %w", err)
	}
	if l.sha, err = s.redis.ScriptLoad(ctx, baseline.Take).Result(); err != nil {
		return nil, fmt.Errorf("load take.lua: %w", err)
	}
	args := []any{1_000_000, 1_000_000, 1_000_000}
	for i := range keysPerCall {
		args = append(args, fmt.Sprintf("%012d", i))
	}
	reply, err := s.redis.EvalSha(ctx, l.sha, []string{takeBuckets}, args...).Text()
	if err != nil {
		return nil, fmt.Errorf("call take.lua: %w", err)
	}
	for i := 0; i < keysPerCall*replySize; i += replySize {
		if len(reply) != keysPerCall*replySize || reply[i] != 1 {
			return nil, fmt.Errorf("take.lua denies: %q", reply)
		}
	}
	return l, nil
}

// call takes tokens from random buckets, keysPerCall at a time; an operation is one key. Operations are counted by Redis.
func (l *takeLoad) call(ctx context.Context, duration time.Duration) (sample, error) {
	ctx, cancel := context.WithTimeout(ctx, duration+startTime)
	defer cancel()
	group, ctx := errgroup.WithContext(ctx)
	stopping, stop := context.WithCancel(ctx)
	defer stop()
	cmd := l.command(stopping)
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		return sample{}, fmt.Errorf("start redis-benchmark: %w", err)
	}
	group.Go(func() error {
		if err := cmd.Wait(); stopping.Err() == nil {
			return fmt.Errorf("redis-benchmark ended: %w: %s", err, bytes.TrimSpace(said.Bytes()))
		}
		return nil // it was stopped
	})
	s, err := l.observe(ctx, duration, cmd.Process.Pid)
	stop()
	return s, errors.Join(group.Wait(), err)
}

// command is redis-benchmark without an end.
func (l *takeLoad) command(ctx context.Context) *exec.Cmd {
	args := []string{
		"-h", l.host, "-p", l.port, "-a", l.password, "-c", strconv.Itoa(takeClients), "-n", "1000000000", "-r", strconv.Itoa(keyCount), "-q",
		"evalsha", l.sha, "1", takeBuckets, "1000000", "1000000", "1000000",
	}
	return exec.CommandContext(ctx, l.benchmark, slices.Concat(args, slices.Repeat([]string{placeholder}, keysPerCall))...)
}

// observe waits until Redis is busy with the calls, and measures them for a while.
func (l *takeLoad) observe(ctx context.Context, duration time.Duration, pid int) (sample, error) {
	const busy = 1000 // calls
	first, err := l.stack.countCalls(ctx)
	if err != nil {
		return sample{}, err
	}
	var before redisCalls
	err = poll(ctx, "Redis is busy with take.lua", func() (bool, error) {
		before, err = l.stack.countCalls(ctx)
		return before.scripts() >= first.scripts()+busy, err
	})
	if err != nil {
		return sample{}, err
	}
	processes, err := l.stack.watched(processRedis)
	if err != nil {
		return sample{}, err
	}
	w, err := startWatch(append(processes, watched{name: processClient, pid: pid})...)
	if err != nil {
		return sample{}, err
	}
	if !wait(ctx, time.NewTimer(duration), duration) {
		return sample{}, context.Cause(ctx)
	}
	s, err := w.stop()
	if err != nil {
		return s, err
	}
	after, err := l.stack.countCalls(ctx)
	s.operations = int(after.scripts()-before.scripts()) * keysPerCall
	return s, err
}

// redisInfo reads a whole number from a section of INFO.
func (s *stack) redisInfo(ctx context.Context, section, field string) (int64, error) {
	text, err := s.redis.Info(ctx, section).Result()
	if err != nil {
		return 0, fmt.Errorf("read INFO of Redis: %w", err)
	}
	for line := range strings.Lines(text) {
		if value, found := strings.CutPrefix(line, field+":"); found {
			return strconv.ParseInt(strings.TrimSpace(value), 10, 64)
		}
	}
	return 0, fmt.Errorf("INFO of Redis has no %s", field)
}

// redisCalls are the commands that clients have sent to Redis, by name. Calls from within scripts count too.
type redisCalls map[string]int64

// countCalls reads them, without INFO itself.
func (s *stack) countCalls(ctx context.Context) (redisCalls, error) {
	text, err := s.redis.Info(ctx, "commandstats").Result()
	if err != nil {
		return nil, fmt.Errorf("read INFO of Redis: %w", err)
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

// scripts returns how many of them are script calls.
func (c redisCalls) scripts() int64 { return c["evalsha"] + c["fcall"] }
