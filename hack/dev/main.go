package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	context.AfterFunc(ctx, stop) // a second signal ends this process at once, and the kernel its children
	err := run(ctx, os.Args[1:])
	stop()
	if err == nil {
		return
	}
	if failed, ok := errors.AsType[*statusError](err); ok {
		os.Exit(failed.status) // the command has said why
	}
	fmt.Fprintln(os.Stderr, "dev:", err)
	os.Exit(1)
}

func run(ctx context.Context, args []string) error {
	root, err := projectRoot()
	if err != nil {
		return err
	}
	switch {
	case len(args) == 1 && args[0] == "up":
		return up(ctx, root, newConsole(os.Stdout))
	case len(args) == 1 && args[0] == "down":
		return down(ctx, root, os.Stdout)
	case len(args) > 1 && args[0] == "test":
		return runTests(ctx, root, args[1:], newConsole(os.Stderr))
	case len(args) > 1 && args[0] == "npm":
		return runNPM(ctx, root, args[1:], newConsole(os.Stderr))
	default:
		return errors.New("usage: dev up | dev down | dev test COMMAND… | dev npm PROGRAM…")
	}
}

// projectRoot is the directory of the project's go.mod, at or above the working directory.
func projectRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the project: %w", err)
	}
	for {
		text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && strings.HasPrefix(string(text), "module examprep.dev\n") {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("run it inside the project")
		}
		dir = parent
	}
}
