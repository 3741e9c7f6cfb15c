package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// sources are the places that a set comes from, in order.
type sources struct {
	index   index
	compile func(ctx context.Context, dir string, pinned pins, progress io.Writer) error
}

// fill puts a complete set into dir, unless dir has one. If another run is filling dir, fill waits for it.
func (s sources) fill(ctx context.Context, dir string, pinned pins, progress io.Writer) error {
	if len(lacks(dir)) == 0 {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return fmt.Errorf("make the cache: %w", err)
	}
	unlock, err := lock(ctx, dir+".lock", progress)
	if err != nil {
		return err
	}
	defer unlock()
	if len(lacks(dir)) == 0 {
		return nil
	}
	partial := dir + ".partial"
	started := time.Now()
	err = emptied(partial)
	if err == nil {
		err = s.index.download(ctx, partial, pinned.kubernetes, progress)
	}
	if err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("obtain kube-apiserver, etcd and kubectl: %w", context.Cause(ctx))
		}
		fmt.Fprintf(progress, "kubernetes: %v; compiling instead\n", err)
		if err := emptied(partial); err != nil {
			return err
		}
		if err := s.compile(ctx, partial, pinned, progress); err != nil {
			return err
		}
	}
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("remove an incomplete set: %w", err)
	}
	if err := os.Rename(partial, dir); err != nil {
		return fmt.Errorf("put the set in place: %w", err)
	}
	fmt.Fprintf(progress, "kubernetes: kube-apiserver, etcd and kubectl are in %s after %s\n", dir, time.Since(started).Round(time.Second))
	return nil
}

// emptied makes dir an empty folder. A killed run or a failed download can have left files there.
func emptied(dir string) error {
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("remove the files of an interrupted run: %w", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make the cache: %w", err)
	}
	return nil
}

// lock takes an exclusive lock on path. The kernel releases the lock when the process ends.
func lock(ctx context.Context, path string, progress io.Writer) (unlock func(), err error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open the lock: %w", err)
	}
	ticker := time.NewTicker(500 * time.Millisecond)
	defer ticker.Stop()
	for reported := false; ; {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { _ = file.Close() }, nil
		}
		if !reported {
			fmt.Fprintln(progress, "kubernetes: another run is obtaining the programs; waiting for it")
			reported = true
		}
		select {
		case <-ctx.Done():
			_ = file.Close()
			return nil, fmt.Errorf("wait for another run: %w", context.Cause(ctx))
		case <-ticker.C:
		}
	}
}
