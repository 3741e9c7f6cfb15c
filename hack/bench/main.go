package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

// The roles that this program plays in child processes of its own.
const (
	roleBare     = "bare"
	roleReceiver = "receiver"
	roleAttack   = "attack"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	context.AfterFunc(ctx, stop) // a second signal ends this process at once, and the kernel its children
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	if len(args) > 0 && args[0] == roleBare {
		return serveBare(ctx, args[1:])
	}
	if len(args) > 0 && args[0] == roleReceiver {
		return serveReceiver(ctx, args[1:])
	}
	if len(args) > 0 && args[0] == roleAttack {
		return runAttack(ctx, args[1:], out)
	}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	duration := flags.Duration("duration", 5*time.Second, "how long each thing is measured")
	only := flags.String("only", "", "which parts to run, separated by commas: "+strings.Join(partNames(), ", ")+" (all but profile)")
	attempts := flags.Int64("history-attempts", 1_000_000, "how many attempts the history part loads; 10000000 takes minutes and 6 GB")
	manyKeys := flags.Int("keys", 1_000_000, "how many keys the keys part makes")
	contents := flags.Int("examcontents", 10_000, "how many ExamContents the operator part makes; 1000 takes three minutes, 10000 take twenty")
	profile := flags.String("profile", "default.pgo", "where the profile part writes")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *manyKeys < keyCount {
		return fmt.Errorf("-keys: %d is less than the %d that it is compared with", *manyKeys, keyCount)
	}
	if *contents < fewContents {
		return fmt.Errorf("-examcontents: %d is less than the %d that it is compared with", *contents, fewContents)
	}
	chosen, err := choose(*only)
	if err != nil {
		return err
	}
	return measure(ctx, *duration, sizes{*attempts, *manyKeys, *contents, *profile}, chosen, out)
}

// sizes are how much of something a part makes, and where.
type sizes struct {
	// historyAttempts is how many attempts the history part loads.
	historyAttempts int64
	// manyKeys is how many keys the keys part makes.
	manyKeys int
	// examContents is how many ExamContents the operator part makes.
	examContents int
	// profile is the file that the profile part writes.
	profile string
}

// A part is one measurement; it adds what it found to the report.
type part struct {
	name string
	// onlyAsked parts run where -only names them.
	onlyAsked bool
	run       func(ctx context.Context, s *stack, duration time.Duration, r *report) error
}

// parts in the order in which they run: the worker, once started, is busy with what the others write.
func parts() []part {
	return []part{
		{name: "gate", run: measureGate},
		{name: "rivals", run: measureRivals},
		{name: "fairness", run: measureFairness},
		{name: "attempts", run: measureAttempts},
		{name: "publish", run: measurePublish},
		{name: "history", run: measureHistory},
		{name: "hostile", run: measureHostile},
		{name: "keys", run: measureManyKeys},
		{name: "webhooks", run: measureWebhooks},
		{name: "operator", run: measureOperator},
		{name: "profile", onlyAsked: true, run: recordProfile},
	}
}

func partNames() []string {
	var names []string
	for _, p := range parts() {
		names = append(names, p.name)
	}
	return names
}

func choose(only string) ([]part, error) {
	if only == "" {
		return slices.DeleteFunc(parts(), func(p part) bool { return p.onlyAsked }), nil
	}
	wanted := strings.Split(only, ",")
	for _, name := range wanted {
		if !slices.Contains(partNames(), name) {
			return nil, fmt.Errorf("-only: there is no %q among %s", name, strings.Join(partNames(), ", "))
		}
	}
	return slices.DeleteFunc(parts(), func(p part) bool { return !slices.Contains(wanted, p.name) }), nil
}

// measure brings everything up, runs the parts, and prints what they found. Parts that ran are printed even if a later
// one fails.
func measure(ctx context.Context, duration time.Duration, much sizes, chosen []part, out io.Writer) (err error) {
	began := time.Now()
	say := func(format string, args ...any) {
		fmt.Fprintf(os.Stderr, "[%6.1fs] %s\n", time.Since(began).Seconds(), fmt.Sprintf(format, args...))
	}
	load, _ := os.ReadFile("/proc/loadavg") // a courtesy to the reader
	machine := readMachine()
	stack, err := openStack(ctx, say)
	if err != nil {
		return err
	}
	defer stack.close()
	stack.sizes = much
	r := &report{title: fmt.Sprintf("%s %s/%s, %d processors, load before: %s, %s each", runtime.Version(), runtime.GOOS, runtime.GOARCH,
		runtime.NumCPU(), strings.Join(strings.Fields(string(load))[:min(3, len(strings.Fields(string(load))))], " "), duration)}
	defer func() {
		if len(r.rows) > 0 {
			r.title += fmt.Sprintf(", %.0f %% of the processors' time was other machines'", 100*readMachine().stolenSince(machine))
			err = errors.Join(err, r.print(out))
		}
	}()
	for _, p := range chosen {
		say("measuring %s", p.name)
		if err := p.run(ctx, stack, duration, r); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	say("done")
	return nil
}
