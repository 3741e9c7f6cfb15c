package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"examprep.dev/server/keys"
)

const (
	// installTime bounds bringing what a rival needs.
	installTime = 5 * time.Minute
	// fewTier is a tier that is soon used up.
	fewTier     = "bench-few"
	fewRequests = 5
)

// skippedError says why a comparison cannot be made here. It is no failure.
type skippedError struct{ reason error }

func (e *skippedError) Error() string { return e.reason.Error() }

func (e *skippedError) Unwrap() error { return e.reason }

// rival is another server that answers as the API does, or the API itself.
type rival struct {
	name, process string
	// target is how many times its requests/s ours are to be; 0 for none.
	target float64
	start  func(context.Context) (address string, err error)
	// also are the addresses of further processes, by name.
	also map[string]string

	contender
}

// measureRivals compares requests/s of one pod, which has one processor, with those of others that check and limit keys, and
// have all processors: the same document, the same keys, the same load, in turns.
func measureRivals(ctx context.Context, s *stack, duration time.Duration, r *report) error {
	ours, err := s.warmOverviews(ctx, duration)
	if err != nil {
		return err
	}
	store := keys.NewStore(s.pool, silent{})
	if err := store.ApplyTier(ctx, keys.TierSpec{Name: fewTier, Requests: fewRequests, Period: time.Minute}); err != nil {
		return err
	}
	file, document, err := s.saveAnswer(ctx)
	if err != nil {
		return err
	}
	pods, stop, err := s.startMorePods(ctx)
	if err != nil {
		return err
	}
	defer stop()
	pod := func(context.Context) (string, error) { return s.api, nil }
	field := []*rival{
		{name: "GET overview, one pod", process: processAPI, start: pod},
		{name: fmt.Sprintf("  the same, %d pods", 1+len(pods)), process: processAPI, also: pods, start: pod},
		{name: "  nginx + lua, the same script, a call a request", process: processNginx, target: 2, start: func(ctx context.Context) (string, error) {
			return s.startNginx(ctx, document)
		}},
		{name: "  fiber + key's record by GET + redis_rate", process: processFiber, target: 2.5, start: func(ctx context.Context) (string, error) {
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
		if one.target > 0 {
			r.judge(verdict{
				what: "GET: requests/s / those of " + one.process, unit: "×", target: one.target, least: true,
				measured: ratio(racing[0].turns, one.turns, (*sample).rate),
			})
		}
	}
	return nil
}

// line brings all to the start: each is started, proven to do what is compared, and warmed. Those that cannot be had here
// are left out, and the report says so.
func (s *stack) line(ctx context.Context, field []*rival, ours load, document answer, turn time.Duration, r *report) ([]*rival, error) {
	var racing []*rival
	for _, one := range field {
		address, err := one.start(ctx)
		if skipped, ok := errors.AsType[*skippedError](err); ok {
			s.say("not compared with %s: %v", one.process, skipped)
			r.notef("Not compared with %s: %v", one.process, skipped)
			continue
		}
		if err == nil {
			err = s.prove(ctx, address, document)
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

// prove makes sure that a server does what the API does: the document and the limit's headers with a good key, 401 with a
// bad one, 429 with one that is used up.
func (s *stack) prove(ctx context.Context, address string, document answer) error {
	few, err := keys.NewStore(s.pool, silent{}).Create(ctx, keys.NewKey{Account: account, Tier: fewTier})
	if err != nil {
		return err
	}
	if err := s.tellFiber(ctx, "1000000/1", s.keys...); err != nil {
		return err
	}
	if err := s.tellFiber(ctx, fmt.Sprintf("%d/60", fewRequests), few.Key); err != nil {
		return err
	}
	// The API has its record put into Redis, where the script finds it whoever calls. It costs one of the few.
	if _, err := ask(ctx, s.api, few.Key); err != nil {
		return err
	}
	unknown := forgeKey(^uint32(0), [2]uint64{})
	for _, want := range []struct {
		what, key string
		status    int
	}{
		{"a good key", s.keys[0], http.StatusOK},
		{"a key that does not exist", unknown, http.StatusUnauthorized},
		{"a key of the wrong form", s.keys[0][:len(s.keys[0])-1] + "x", http.StatusUnauthorized},
		{"a key with few requests", few.Key, http.StatusOK},
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
		got, err := ask(ctx, address, few.Key)
		if err != nil {
			return err
		}
		if got.status == http.StatusTooManyRequests {
			return got.check(http.StatusTooManyRequests, document)
		}
	}
	return fmt.Errorf("it never refuses a key with %d requests a minute", fewRequests)
}

// check compares an answer with what it should be.
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
