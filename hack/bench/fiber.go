package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"

	"examprep.dev/hack/dev/process"
)

// processFiber is fiber with the records of keys in Redis.
const processFiber = "fiber"

// buildFiber compiles the program of hack/bench/fiber, which is a module of its own.
func (s *stack) buildFiber(ctx context.Context) error {
	s.say("building hack/bench/fiber")
	fetching, cancel := context.WithTimeout(ctx, installTime)
	defer cancel()
	for _, step := range []struct {
		args    []string
		missing bool // a failure means that this machine cannot get a module
	}{
		{[]string{"mod", "download"}, true},
		{[]string{"build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o", s.dir.Path("bin", processFiber), "."}, false},
	} {
		cmd := exec.CommandContext(fetching, "go", step.args...)
		cmd.Dir = filepath.Join(s.root, "hack", "bench", "fiber")
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-mod=readonly")
		out, err := cmd.CombinedOutput()
		if err != nil && step.missing && ctx.Err() == nil {
			return &skippedError{fmt.Errorf("go mod download: %w: %s", err, out)}
		}
		if err != nil {
			return fmt.Errorf("build hack/bench/fiber: %w\n%s", err, out)
		}
	}
	return nil
}

// startFiber builds it, runs it in front of the document in a file, and returns where it listens.
func (s *stack) startFiber(ctx context.Context, file string) (string, error) {
	if err := s.buildFiber(ctx); err != nil {
		return "", err
	}
	if err := s.tellFiber(ctx); err != nil {
		return "", err
	}
	address, err := s.ports.Address(ctx, processFiber)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	return address, s.supervisor.Start(ctx, process.Spec{
		Name: processFiber, Path: s.dir.Path("bin", processFiber), Args: []string{address, file}, Env: []string{"REDIS_URL=" + s.redisURL},
		Ready: func(ctx context.Context) error { // it refuses a request without a key
			got, err := ask(ctx, address, "")
			if err == nil && got.status != http.StatusUnauthorized {
				err = &statusError{got.status, string(got.body)}
			}
			return err
		},
	})
}

// tellFiber writes the records of all keys that it reads: requests and seconds.
func (s *stack) tellFiber(ctx context.Context) error {
	pipe := s.redis.Pipeline()
	for _, key := range s.keys {
		pipe.Set(ctx, "bench:fiber:"+hashOf(key), "1000000/1", 0)
	}
	pipe.Set(ctx, "bench:fiber:"+hashOf(s.few), fmt.Sprintf("%d/60", fewRequests), 0)
	if _, err := pipe.Exec(ctx); err != nil {
		return fmt.Errorf("write records for fiber: %w", err)
	}
	return nil
}
