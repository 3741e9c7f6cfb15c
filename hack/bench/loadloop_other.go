//go:build !linux

package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// newLoop fails: the load generator needs epoll.
func newLoop(load, time.Duration) (*loop, error) {
	return nil, fmt.Errorf("the benchmarks run on Linux only: %w", errors.ErrUnsupported)
}

func (p *loop) run(context.Context) error { return errors.ErrUnsupported }

func (p *loop) close() {}
