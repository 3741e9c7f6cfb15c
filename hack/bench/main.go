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
	if len(args) > 0 {
		switch args[0] {
		case roleBare:
			return serveBare(ctx, args[1:])
		case roleReceiver:
			return serveReceiver(ctx, args[1:])
		case roleAttack:
			return runAttack(ctx, args[1:], out)
		}
	}
	settings, chosen, err := parseFlags(args)
	if err != nil {
		return err
	}
	return measure(ctx, settings, chosen, out)
}

// settings are what the flags say.
type settings struct {
	// duration is how long each thing is measured.
	duration time.Duration
	// historyAttempts, catalogueExams, manyKeys, waiting and examContents are how many attempts, exams, keys, waiting deliveries
	// and ExamContents the parts history, catalogue, keys, webhooks and operator make.
	historyAttempts, catalogueExams int64
	manyKeys, waiting, examContents int
	// bulkPercent is the size of the part bulk, in percent.
	bulkPercent int
	// attackTurns is how often attack and quiet take turns in the hostile part. It is odd, for the median.
	attackTurns int
	// scalingTurns is how often one worker and several take turns in the webhooks part. It is odd, for the median.
	scalingTurns int
	// profile is the file that the profile part writes.
	profile string
	// plot is the file of the plot; "" for none.
	plot string
}

const (
	usualParts = "gate,attempts,publish,webhooks"
	allParts   = "all"
)

// parseFlags returns the settings and the parts to run.
func parseFlags(args []string) (settings, []part, error) {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	s := settings{attackTurns: 5, scalingTurns: 3}
	flags.DurationVar(&s.duration, "duration", 5*time.Second, "how long each thing is measured")
	only := flags.String("only", usualParts, "parts to run, separated by commas: "+strings.Join(partNames(), ", ")+"; "+allParts+
		" is all but profile.\nOn two cores the default takes 20 minutes, all takes an hour and a half,\nand all with -small -duration 2s takes less than 20 minutes")
	small := flags.Bool("small", false, "few keys, attempts, deliveries, exams and ExamContents (20000, 20000, 20000, 200, 200), and 5 % of the part bulk, unless a flag says otherwise.\nEach attack and each number of workers has one turn. The operator's growth and its 1,000 ExamContents are not judged by it")
	flags.Int64Var(&s.historyAttempts, "history-attempts", 1_000_000, "attempts that the history part loads; 10000000 take minutes and 6 GB")
	flags.Int64Var(&s.catalogueExams, "exams", 5_000, "exams of 200 questions that the catalogue part publishes; 5000 take a minute")
	flags.IntVar(&s.manyKeys, "keys", 1_000_000, "keys that the keys part makes")
	flags.IntVar(&s.waiting, "waiting", 1_000_000, "deliveries that wait in the webhooks part")
	flags.IntVar(&s.examContents, "examcontents", 10_000, "ExamContents that the operator part makes; 1000 take three minutes, 10000 take twenty")
	flags.IntVar(&s.bulkPercent, "bulk", percentOfBulk, "size of the part bulk, in percent of 200000 keys, 64000 and 500000 deliveries that end, and 1000000 that are cancelled")
	flags.StringVar(&s.plot, "plot", "", "file that gets a plot of what the parts gate, attempts and webhooks need, as SVG (docs/scaling.svg)")
	flags.StringVar(&s.profile, "profile", "default.pgo", "file that the profile part writes")
	if err := flags.Parse(args); err != nil {
		return s, nil, err
	}
	if *small {
		s.shrink(flags)
	}
	if s.manyKeys < keyCount {
		return s, nil, fmt.Errorf("-keys: %d is less than the %d that it is compared with", s.manyKeys, keyCount)
	}
	if s.catalogueExams < fewExams {
		return s, nil, fmt.Errorf("-exams: %d is less than the %d that it is compared with", s.catalogueExams, fewExams)
	}
	chosen, err := choose(*only)
	if s.plot != "" && !slices.ContainsFunc(chosen, func(p part) bool { return p.plotted }) {
		err = errors.Join(err, errors.New("-plot: -only names no part that the plot shows: gate, attempts or webhooks"))
	}
	return s, chosen, err
}

// shrink sets the sizes that no flag set to small ones.
func (s *settings) shrink(flags *flag.FlagSet) {
	const few, fewResources = 20_000, 200
	s.attackTurns, s.scalingTurns = 1, 1
	given := map[string]bool{}
	flags.Visit(func(f *flag.Flag) { given[f.Name] = true })
	if !given["history-attempts"] {
		s.historyAttempts = few
	}
	if !given["exams"] {
		s.catalogueExams = fewResources
	}
	if !given["keys"] {
		s.manyKeys = few
	}
	if !given["waiting"] {
		s.waiting = few
	}
	if !given["examcontents"] {
		s.examContents = fewResources
	}
	if !given["bulk"] {
		s.bulkPercent = smallPercent
	}
}

// A part is one measurement; it adds what it found to the report.
type part struct {
	name string
	// onlyAsked parts run where -only names them.
	onlyAsked bool
	// plotted parts note what an operation costs, for the plot.
	plotted bool
	run     func(ctx context.Context, s *stack, duration time.Duration, r *report) error
}

// parts in the order in which they run: the worker, once started, is busy with what the others write.
func parts() []part {
	return []part{
		{name: "gate", plotted: true, run: measureGate},
		{name: "rivals", run: measureRivals},
		{name: "fairness", run: measureFairness},
		{name: "attempts", plotted: true, run: measureAttempts},
		{name: "onekey", run: measureOneKey},
		{name: "publish", run: measurePublish},
		{name: "history", run: measureHistory},
		{name: "catalogue", run: measureCatalogue},
		{name: "console", run: measureConsole},
		{name: "hostile", run: measureHostile},
		{name: "keys", run: measureManyKeys},
		{name: "webhooks", plotted: true, run: measureWebhooks},
		{name: "bulk", run: measureBulk},
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
	if only == allParts {
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
func measure(ctx context.Context, much settings, chosen []part, out io.Writer) (err error) {
	began := time.Now()
	say := func(format string, args ...any) {
		fmt.Fprintf(os.Stderr, "[%6.1fs] %s\n", time.Since(began).Seconds(), fmt.Sprintf(format, args...))
	}
	load, _ := os.ReadFile("/proc/loadavg") // a courtesy to the reader
	machine := readMachine()
	stack, err := openStack(ctx, much, say)
	if err != nil {
		return err
	}
	defer stack.close()
	r := &report{title: fmt.Sprintf("%s %s/%s, %d processors, load before: %s, %s each", runtime.Version(), runtime.GOOS, runtime.GOARCH,
		runtime.NumCPU(), strings.Join(strings.Fields(string(load))[:min(3, len(strings.Fields(string(load))))], " "), much.duration)}
	defer func() {
		if len(r.rows)+len(r.verdicts) > 0 {
			r.title += fmt.Sprintf(", %.0f %% of the processors' time was other machines'", 100*readMachine().stolenSince(machine))
			err = errors.Join(err, r.print(out))
		}
	}()
	for _, p := range chosen {
		say("measuring %s", p.name)
		if err := p.run(ctx, stack, much.duration, r); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	say("done")
	return r.draw(much.plot)
}
