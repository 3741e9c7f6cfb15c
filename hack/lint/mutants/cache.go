package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// linkCache makes a folder with hard links to the files of Go's build cache, and returns its name. go test reads from it what
// is compiled already, and writes to it the packages of mutants. No later run uses these packages, which are gigabytes, so
// they go with the folder.
func linkCache(ctx context.Context) (string, error) {
	printed, err := exec.CommandContext(ctx, "go", "env", "GOCACHE").Output()
	if err != nil {
		return "", fmt.Errorf("go env GOCACHE: %w", err)
	}
	cache := strings.TrimSpace(string(printed))
	dir, err := os.MkdirTemp(filepath.Dir(cache), "mutants-cache-") // hard links need the same file system
	if err != nil {
		return "", err
	}
	err = filepath.WalkDir(cache, func(file string, entry fs.DirEntry, err error) error {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		link := filepath.Join(dir, strings.TrimPrefix(file, cache))
		if entry.IsDir() {
			return os.MkdirAll(link, 0o750)
		}
		if err := os.Link(file, link); !errors.Is(err, fs.ErrNotExist) { // a go command has removed the old file
			return err
		}
		return nil
	})
	if err != nil {
		return "", errors.Join(fmt.Errorf("link the build cache: %w", err), os.RemoveAll(dir))
	}
	return dir, nil
}
