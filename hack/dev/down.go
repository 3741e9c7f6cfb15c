package main

import (
	"context"
	"fmt"
	"io"
	"path/filepath"

	"examprep.dev/hack/dev/servers"
	"examprep.dev/hack/dev/state"
)

// heldDir is a state directory that a process may hold.
type heldDir struct {
	holder string
	dir    state.Dir
}

// down stops `dev up` and the servers for tests, or the latter only, and returns when they have ended.
func down(ctx context.Context, root string, testsOnly bool, out io.Writer) error {
	dir := state.Dir(filepath.Join(root, ".dev"))
	held := []heldDir{{"the servers for tests", groupDir(dir, stores)}, {"the API server for tests", groupDir(dir, cluster)}}
	if !testsOnly {
		held = append(held, heldDir{"make dev", dir})
	}
	ran := false
	for _, h := range held {
		stopped, err := h.dir.StopHolder(ctx)
		if err != nil {
			return err
		}
		if stopped {
			ran = true
			fmt.Fprintln(out, "stopped "+h.holder)
		}
	}
	if !ran {
		fmt.Fprintln(out, "nothing runs")
	}
	return nil
}

// clean stops everything and deletes the databases, also those that are not in .dev.
func clean(ctx context.Context, root string, out io.Writer) error {
	if err := down(ctx, root, false, out); err != nil {
		return err
	}
	dir := state.Dir(filepath.Join(root, ".dev"))
	for _, data := range []string{dir.Path("postgres"), groupDir(dir, stores).Path("postgres")} {
		if err := servers.RemovePostgres(data); err != nil {
			return err
		}
	}
	return nil
}
