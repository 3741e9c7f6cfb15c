package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
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
