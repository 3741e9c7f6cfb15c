package main

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"time"

	"examprep.dev/hack/bench/baseline"
)

const (
	processPgbench = "pgbench"
	// pgbenchClients is the size of an API pod's pool. The baseline's cost changes by four times with this number.
	pgbenchClients = 20
	// pgbenchWarm is how many transactions each client makes while its connection is new: it is longer than PostgreSQL makes a
	// plan for each execution. pgbenchLeast is how many each makes afterwards.
	pgbenchWarm, pgbenchLeast = 10, 100
)

// statements runs the baseline's open and submit under pgbench.
type statements struct {
	stack        *stack
	path         string // of pgbench
	open, submit string // files
	variables    []string
	// done is how many attempts each client has had in earlier turns.
	done int
}

func (s *stack) newStatements(ctx context.Context) (*statements, error) {
	path, err := exec.LookPath("pgbench")
	if err != nil {
		paths, _ := filepath.Glob("/usr/lib/postgresql/*/bin/pgbench") // the pattern is well-formed
		if len(paths) == 0 {
			return nil, fmt.Errorf("find pgbench, which comes with PostgreSQL: %w", err)
		}
		path = paths[len(paths)-1]
	}
	if err := s.openBaseline(ctx); err != nil {
		return nil, err
	}
	made, err := newEvent()
	if err != nil {
		return nil, err
	}
	st := &statements{stack: s, path: path, variables: []string{"-D", "answers=" + answerSheet(), "-D", "body=" + string(made.body)}}
	for _, script := range []struct {
		name, text string
		file       *string
	}{{"open.sql", baseline.Open, &st.open}, {"submit.sql", baseline.Submit, &st.submit}} {
		*script.file = s.dir.Path(script.name)
		if err := s.dir.WriteFile(script.name, []byte(script.text), 0o600); err != nil {
			return nil, err
		}
	}
	return st, nil
}

// turn opens at least so many attempts with each client, then submits them.
func (st *statements) turn(ctx context.Context, each int) (open, submit sample, err error) {
	each = max(each, pgbenchLeast)
	for _, phase := range []struct {
		file string
		into *sample
	}{{st.open, &open}, {st.submit, &submit}} {
		if err := analyse(ctx, st.stack.baseline); err != nil {
			return open, submit, err
		}
		if *phase.into, err = st.steady(ctx, phase.file, each); err != nil {
			return open, submit, err
		}
	}
	st.done += 2*pgbenchWarm + each
	return open, submit, st.check(ctx)
}

// check reports an error if not all attempts of all turns are submitted: the scripts would then have measured nothing.
func (st *statements) check(ctx context.Context) error {
	var submitted int
	err := st.stack.baseline.QueryRow(ctx, "SELECT count(*) FROM attempts WHERE state = 'submitted'").Scan(&submitted)
	if want := st.done * pgbenchClients; err == nil && submitted != want {
		err = fmt.Errorf("pgbench has submitted %d attempts, not %d", submitted, want)
	}
	return err
}

// steady measures each transactions of each client without what new connections cost: a run with a few more transactions,
// minus a run with those few alone.
func (st *statements) steady(ctx context.Context, file string, each int) (sample, error) {
	warm, err := st.run(ctx, file, st.done, pgbenchWarm)
	if err != nil {
		return sample{}, err
	}
	s, err := st.run(ctx, file, st.done+pgbenchWarm, pgbenchWarm+each)
	if err != nil {
		return sample{}, err
	}
	s.operations -= warm.operations
	s.elapsed -= warm.elapsed
	for i := range warm.cpu {
		s.cpu[i].cpu -= warm.cpu[i].cpu
	}
	return s, nil
}

// tps matches the rate that pgbench prints, connecting left out.
var tps = regexp.MustCompile(`tps = ([0-9.]+) \(without initial connection time\)`)

// run makes each transactions with each client, which has had done before.
func (st *statements) run(ctx context.Context, file string, done, each int) (sample, error) {
	processes, err := st.stack.watched(processPostgres)
	if err != nil {
		return sample{}, err
	}
	w, err := startWatch(processes...)
	if err != nil {
		return sample{}, err
	}
	args := append([]string{
		"-n", "-M", "prepared", "-c", strconv.Itoa(pgbenchClients), "-j", "2", "-t", strconv.Itoa(each), "-f", file,
		"-D", "n=" + strconv.Itoa(done),
	}, st.variables...)
	cmd := exec.CommandContext(ctx, st.path, append(args, st.stack.baselineURL)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return sample{}, fmt.Errorf("pgbench: %w\n%s", err, out[:min(len(out), 500)])
	}
	s, err := w.stop()
	if err != nil {
		return s, err
	}
	s.operations = pgbenchClients * each
	if found := tps.FindSubmatch(out); found != nil {
		if rate, err := strconv.ParseFloat(string(found[1]), 64); err == nil && rate > 0 {
			s.elapsed = time.Duration(float64(s.operations) / rate * float64(time.Second))
		}
	}
	s.cpu = append([]spent{{processPgbench, cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()}}, s.cpu...)
	return s, nil
}
