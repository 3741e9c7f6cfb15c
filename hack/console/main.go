package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"examprep.dev/hack/dev/state"
	"examprep.dev/hack/npm"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "console:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	commands := map[string]func(context.Context, string, npm.Dir) error{
		"vendor": func(_ context.Context, root string, packages npm.Dir) error { return vendor(root, packages) },
		"check":  checkTypes,
	}
	if len(args) != 1 || !slices.Contains([]string{"vendor", "check"}, args[0]) {
		return errors.New("usage: console vendor | console check")
	}
	root, err := state.ProjectRoot()
	if err != nil {
		return fmt.Errorf("find the project: %w", err)
	}
	packages, err := npm.Install(ctx, os.Stderr)
	if err != nil {
		return fmt.Errorf("install the packages of hack/npm: %w", err)
	}
	return commands[args[0]](ctx, root, packages)
}
