// Command stress runs the tests of packages on a machine that is kept too busy: stress ROUNDS PACKAGE…
//
// Each round runs each package's test program once, with the race detector, one processor and tests in random order. Six
// busy loops take most of the machine, and each program is stopped once for five seconds. A test that fails here depends
// on how long something takes. The programs and their logs are in .dev/stress. The last lines are the sum of all rounds.
//
// make test-stress runs it below dev test, which starts the servers for tests and names them in variables.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "stress:", err)
		os.Exit(1)
	}
}

// run runs rounds of the packages' tests in the working directory, the root of the module.
func run(ctx context.Context, args []string) error {
	if len(args) < 2 {
		return errors.New("usage: stress ROUNDS PACKAGE…")
	}
	rounds, err := strconv.Atoi(args[0])
	if err != nil || rounds < 1 {
		return fmt.Errorf("%q is not a number of rounds", args[0])
	}
	dir, err := filepath.Abs(filepath.Join(".dev", "stress"))
	if err != nil {
		return err
	}
	s := &stress{dir: dir, rounds: rounds, to: os.Stdout}
	if err := s.prepare(ctx, args[1:]); err != nil {
		return err
	}
	began := time.Now()
	endLoops := startLoops(busyLoops)
	defer endLoops()
	for round := 1; round <= rounds && ctx.Err() == nil; round++ {
		s.round(ctx, round)
	}
	if ctx.Err() != nil {
		return errors.New("interrupted")
	}
	fmt.Fprint(s.to, s.sum(time.Since(began)))
	if len(s.failures) > 0 {
		return fmt.Errorf("%d failures", len(s.failures))
	}
	return nil
}
