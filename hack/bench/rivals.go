package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
)

// installTime bounds installing what a rival needs.
const installTime = 5 * time.Minute

// skippedError says why a comparison is impossible on this machine. It is not a failure.
type skippedError struct{ reason error }

func (e *skippedError) Error() string { return e.reason.Error() }

func (e *skippedError) Unwrap() error { return e.reason }

// rival is another server that answers as the API does, or the API itself.
type rival struct {
	name, process string
	// bar and goal are how many times its requests/s the API's should be; 0 for none.
	bar, goal float64
	start     func(context.Context) (address string, err error)
	// also has the addresses of further processes, by name.
	also map[string]string

	contender
}

// measureRivals compares requests/s of two pods of one core each with those of other servers that check and limit keys and
// use all cores: the same document, keys and load, in turns.
func measureRivals(ctx context.Context, s *stack, duration time.Duration, r *report) error {
	ours, err := s.warmOverviews(ctx, duration)
	if err != nil {
		return err
	}
	document, err := ask(ctx, s.api, s.keys[0])
	if err != nil {
		return err
	}
	file, err := s.save("document", document)
	if err != nil {
		return err
	}
	pods, stop, err := s.startMorePods(ctx, podReplicas)
	if err != nil {
		return err
	}
	defer stop()
	pod := func(context.Context) (string, error) { return s.api, nil }
	judged := &rival{name: fmt.Sprintf("GET overview, %d pods of one core", podReplicas), process: processAPI, also: pods, start: pod}
	field := []*rival{
		judged,
		{name: "  one pod", process: processAPI, start: pod},
		{name: "  nginx + lua, a call of take.lua a request", process: processNginx, bar: 1.8, goal: 2.2, start: func(ctx context.Context) (string, error) {
			return s.startNginx(ctx, document)
		}},
		{name: "  fiber + key's record by GET + redis_rate", process: processFiber, bar: 2.5, goal: 3, start: func(ctx context.Context) (string, error) {
			return s.startFiber(ctx, file)
		}},
	}
	racing, err := s.line(ctx, field, ours, document, turnTime(duration, gateTurns), r)
	if err != nil {
		return err
	}
	contenders := make([]*contender, len(racing))
	for i, one := range racing {
		contenders[i] = &one.contender
	}
	if err := takeTurns(ctx, gateTurns, contenders...); err != nil {
		return err
	}
	for _, one := range racing {
		r.medians(one.name, one.turns)
		if one.bar > 0 {
			r.judge(verdict{
				what: fmt.Sprintf("rivals: requests/s of %d pods / those of %s", podReplicas, one.process), unit: "×",
				bar: one.bar, goal: one.goal, least: true, measured: ratio(judged.turns, one.turns, (*sample).rate),
			})
		}
	}
	return nil
}

// line prepares all: each is started, proven to do what is compared, and warmed. A rival that cannot be installed
// is left out, and the report says so.
func (s *stack) line(ctx context.Context, field []*rival, ours load, document answer, turn time.Duration, r *report) ([]*rival, error) {
	var racing []*rival
	proven := map[string]bool{}
	for _, one := range field {
		address, err := one.start(ctx)
		if skipped, ok := errors.AsType[*skippedError](err); ok {
			s.say("not compared with %s: %v", one.process, skipped)
			r.notef("Not compared with %s: %v", one.process, skipped)
			continue
		}
		if err == nil && !proven[one.process] {
			err = s.prove(ctx, address, document)
			proven[one.process] = true
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", one.process, err)
		}
		all := ours
		all.addresses = append([]string{address}, slices.Collect(maps.Values(one.also))...)
		if _, _, err := all.drive(ctx, time.Second); err != nil {
			return nil, fmt.Errorf("%s: %w", one.process, err)
		}
		processes := append([]string{one.process}, slices.Sorted(maps.Keys(one.also))...)
		processes = append(processes, processRedis)
		if one.process == processAPI {
			processes = append(processes, processPostgres)
		}
		one.run = func(ctx context.Context) (sample, error) { return s.during(ctx, all, turn, processes...) }
		racing = append(racing, one)
	}
	return racing, nil
}

// prove checks that a server does what the API does: the document and the limit's headers with a good key, 401 with a bad
// one, 429 with one whose tokens are used up.
func (s *stack) prove(ctx context.Context, address string, document answer) error {
	for _, want := range []struct {
		what, key string
		status    int
	}{
		{"a good key", s.keys[0], http.StatusOK},
		{"a key that does not exist", forgeKey(^uint32(0), [2]uint64{}), http.StatusUnauthorized},
		{"a key of the wrong form", s.keys[0][:len(s.keys[0])-1] + "x", http.StatusUnauthorized},
		{"a key with few requests", s.few, http.StatusOK},
	} {
		got, err := ask(ctx, address, want.key)
		if err != nil {
			return fmt.Errorf("with %s: %w", want.what, err)
		}
		if err := got.check(want.status, document); err != nil {
			return fmt.Errorf("with %s: %w", want.what, err)
		}
	}
	for range fewRequests {
		got, err := ask(ctx, address, s.few)
		if err != nil {
			return err
		}
		if got.status == http.StatusTooManyRequests {
			return got.check(http.StatusTooManyRequests, document)
		}
	}
	return fmt.Errorf("it never refuses a key with %d requests a minute", fewRequests)
}

// check compares an answer with the expected status and document.
func (a answer) check(status int, document answer) error {
	if a.status != status {
		return &statusError{a.status, string(a.body)}
	}
	needed := []string{}
	switch status {
	case http.StatusOK:
		if !bytes.Equal(a.body, document.body) {
			return fmt.Errorf("%d bytes that are not those of the API", len(a.body))
		}
		for name := range document.header {
			needed = append(needed, name)
		}
	case http.StatusTooManyRequests:
		needed = append(needed, "RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset", "Retry-After")
	}
	for _, name := range needed {
		if a.header.Get(name) == "" {
			return fmt.Errorf("answer %d lacks %s", status, name)
		}
	}
	return nil
}

// hashOf returns the SHA-256 of a key in hexadecimal, by which the rivals know it.
func hashOf(key string) string {
	hash := sha256.Sum256([]byte(key))
	return hex.EncodeToString(hash[:])
}

// nginxKeys returns the lines from which nginx learns the keys.
func (s *stack) nginxKeys() string {
	var text strings.Builder
	for _, key := range s.keys {
		fmt.Fprintf(&text, "%s 1000000 1000000 1000000\n", hashOf(key))
	}
	fmt.Fprintf(&text, "%s 60000000 %d %d\n", hashOf(s.few), fewRequests, fewRequests)
	return text.String()
}
