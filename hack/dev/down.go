package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"syscall"
	"time"

	"examprep.dev/hack/dev/state"
)

const (
	downTime = 2 * time.Minute
	downPoll = 50 * time.Millisecond
)

// down asks the process that holds .dev to stop and waits until it has let go. The lock says who that is: a process id
// that stands in a file may long be somebody else's.
func down(ctx context.Context, root string, out io.Writer) error {
	dir := state.Dir(filepath.Join(root, ".dev"))
	pid, err := dir.Holder()
	if err != nil {
		return err
	}
	if pid == 0 {
		fmt.Fprintln(out, "nothing runs")
		return nil
	}
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("ask process %d to stop: %w", pid, err)
	}
	ctx, cancel := context.WithTimeout(ctx, downTime)
	defer cancel()
	ticker := time.NewTicker(downPoll)
	defer ticker.Stop()
	for {
		holder, err := dir.Holder()
		if err != nil {
			return err
		}
		if holder != pid {
			fmt.Fprintln(out, "stopped")
			return nil
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("process %d is still stopping: %w", pid, ctx.Err())
		}
	}
}
