package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"
)

const (
	// keysPerCall is how many keys a call of the script carries.
	keysPerCall = 16
	// recordsName is where the gate keeps its records, on a single server and under the default prefix; ours are in a
	// hash beside it.
	recordsName = "examprep:gate:{keys}"
	ownRecords  = recordsName + ":benchmark"
	// ownField begins our fields, which are as long as the gate's: they end in 12 digits, since that is what
	// redis-benchmark puts in the place of its placeholder.
	ownField    = "benchmark-"
	fieldHeader = "\xb6" // of a string of 22 bytes in MessagePack
	placeholder = "__rand_int__"
	// recordSize is what the gate has of a valid key, and termAt where in it the term is.
	recordSize, termAt = 104, 16
	// ownTerm stands where a record says in which term it was verified: eight bytes without a zero, as a command line
	// needs them.
	ownTerm = "bench-01"
	// redisClients is redis-benchmark's own default.
	redisClients = 50
)

// scriptLoad calls the gate's script without a gate, by redis-benchmark.
type scriptLoad struct {
	stack *stack
	// benchmark is redis-benchmark's path.
	benchmark string
	sha       string
	record    string // like the gate's, but of our term
	// redis-benchmark of version 7 misreads a URL without a user.
	host, port, password string
}

// newScriptLoad loads the gate's script and makes records like the gate's own.
func (s *stack) newScriptLoad(ctx context.Context) (*scriptLoad, error) {
	text, err := os.ReadFile(filepath.Join(s.root, "server", "gate", "script.lua"))
	if err != nil {
		return nil, fmt.Errorf("read the gate's script: %w", err)
	}
	l := &scriptLoad{stack: s}
	at, err := redis.ParseURL(s.redisURL)
	if err != nil {
		return nil, err
	}
	l.password = at.Password
	if l.host, l.port, err = net.SplitHostPort(at.Addr); err != nil {
		return nil, err
	}
	if l.benchmark, err = exec.LookPath("redis-benchmark"); err != nil {
		return nil, fmt.Errorf("find redis-benchmark, which comes with Redis: %w", err)
	}
	if l.sha, err = s.redis.ScriptLoad(ctx, string(text)).Result(); err != nil {
		return nil, fmt.Errorf("load the gate's script: %w", err)
	}
	if l.record, err = l.someRecord(ctx); err != nil {
		return nil, err
	}
	pipe := s.redis.Pipeline()
	for i := range keyCount {
		pipe.HSet(ctx, ownRecords, fmt.Sprintf("%s%012d", ownField, i), l.record)
	}
	pipe.Expire(ctx, ownRecords, time.Hour)
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, fmt.Errorf("make records: %w", err)
	}
	err = l.try(ctx)
	return l, err
}

// someRecord returns a record that the API has put into Redis, with our term.
func (l *scriptLoad) someRecord(ctx context.Context) (string, error) {
	entries := l.stack.redis.HScan(ctx, recordsName, 0, "", 100).Iterator()
	for entries.Next(ctx) { // fields and values in turn
		if record := entries.Val(); len(record) == recordSize {
			return record[:termAt] + ownTerm + record[termAt+len(ownTerm):], nil
		}
	}
	return "", errors.Join(errors.New("the API has put no key's record into Redis"), entries.Err())
}

// try makes sure that the script takes our records for verified keys and grants what is asked.
func (l *scriptLoad) try(ctx context.Context) error {
	fields := l.arguments()
	for n := range keysPerCall {
		fields[0] = strings.Replace(fields[0], placeholder, fmt.Sprintf("%012d", n), 1)
	}
	answer, err := l.stack.redis.EvalSha(ctx, l.sha, []string{ownRecords}, "c", ownTerm, fields[0], fields[1]).Text()
	// The records, then two bytes for each key: what was granted.
	if err != nil || len(answer) != keysPerCall*(recordSize+2) || !strings.HasSuffix(answer, fields[1]) {
		return fmt.Errorf("the gate's script does not grant: answer %q, %w", answer, err)
	}
	return nil
}

// arguments are what the script reads about the keys of a call: the fields, and 257 tokens for each. For the script that is
// the same as one, and redis-benchmark cannot send the byte 0 that one has in it.
func (l *scriptLoad) arguments() []string {
	return []string{strings.Repeat(fieldHeader+ownField+placeholder, keysPerCall), strings.Repeat("\x01\x01", keysPerCall)}
}

// call runs the script on random records, keysPerCall at a time; an operation is one key.
func (l *scriptLoad) call(ctx context.Context, duration time.Duration) (sample, error) {
	args := append([]string{"evalsha", l.sha, "1", ownRecords, "c", ownTerm}, l.arguments()...)
	s, err := l.run(ctx, duration, "evalsha", args)
	s.operations *= keysPerCall
	return s, err
}

// run sends a command over and over. What came of it is read from Redis' own count of commands.
func (l *scriptLoad) run(ctx context.Context, duration time.Duration, command string, args []string) (sample, error) {
	ctx, cancel := context.WithTimeout(ctx, duration+startTime)
	defer cancel()
	group, ctx := errgroup.WithContext(ctx)
	stopping, stop := context.WithCancel(ctx)
	defer stop()
	cmd := l.command(stopping, args)
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		return sample{}, fmt.Errorf("start redis-benchmark: %w", err)
	}
	group.Go(func() error {
		if err := cmd.Wait(); stopping.Err() == nil {
			return fmt.Errorf("redis-benchmark ended: %w: %s", err, bytes.TrimSpace(said.Bytes()))
		}
		return nil // it was asked to
	})
	s, err := l.observe(ctx, duration, command, cmd.Process.Pid)
	stop()
	return s, errors.Join(group.Wait(), err)
}

// command is redis-benchmark without an end.
func (l *scriptLoad) command(ctx context.Context, args []string) *exec.Cmd {
	all := []string{"-h", l.host, "-p", l.port, "-a", l.password, "-c", strconv.Itoa(redisClients), "-n", "1000000000", "-r", strconv.Itoa(keyCount), "-q"}
	return exec.CommandContext(ctx, l.benchmark, append(all, args...)...)
}

// observe waits until Redis is busy with the command, and measures it for a while.
func (l *scriptLoad) observe(ctx context.Context, duration time.Duration, command string, pid int) (sample, error) {
	const busy = 1000 // calls
	first, err := l.calls(ctx, command)
	if err != nil {
		return sample{}, err
	}
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	before := first
	for before < first+busy {
		select {
		case <-ctx.Done():
			return sample{}, fmt.Errorf("wait for calls of %s: %w", command, context.Cause(ctx))
		case <-ticker.C:
			if before, err = l.calls(ctx, command); err != nil {
				return sample{}, err
			}
		}
	}
	processes, err := l.stack.watched(processRedis)
	if err != nil {
		return sample{}, err
	}
	w, err := startWatch(append(processes, watched{name: processClient, pid: pid})...)
	if err != nil {
		return sample{}, err
	}
	select {
	case <-ctx.Done():
		return sample{}, context.Cause(ctx)
	case <-time.After(duration):
	}
	s, err := w.stop()
	if err != nil {
		return s, err
	}
	after, err := l.calls(ctx, command)
	s.operations = after - before
	return s, err
}

// calls is how often Redis has run a command.
func (l *scriptLoad) calls(ctx context.Context, command string) (int, error) {
	counted, err := l.stack.countCalls(ctx)
	return int(counted[command]), err
}

// stats returns the number that follows prefix in a section of Redis' own account, 0 if it is not there.
func (l *scriptLoad) stats(ctx context.Context, section, prefix string) (int, error) {
	text, err := l.stack.redis.Info(ctx, section).Result()
	if err != nil {
		return 0, fmt.Errorf("ask Redis for its account: %w", err)
	}
	for line := range strings.Lines(text) {
		if rest, found := strings.CutPrefix(line, prefix); found {
			count, _, _ := strings.Cut(strings.TrimSpace(rest), ",")
			return strconv.Atoi(count)
		}
	}
	return 0, nil // a command that was never called
}
