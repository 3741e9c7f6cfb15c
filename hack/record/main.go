package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err == nil {
		return
	}
	if !errors.Is(err, errDifferent) {
		fmt.Fprintln(os.Stderr, "record:", err)
	}
	os.Exit(1)
}

// errDifferent is returned if two recordings differ, after the command has printed the differences.
var errDifferent = errors.New("the recordings differ")

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if len(args) > 0 {
		switch args[0] {
		case "capture":
			return capture(ctx, args[1:], stderr)
		case "compare":
			return compare(args[1:], stdout)
		}
	}
	return errors.New("usage: record capture -binary FILE -o FILE | record compare [-allow FILE] BEFORE AFTER")
}
