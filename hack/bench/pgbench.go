package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

const processPgbench = "pgbench"

// statements runs the product's own statements under pgbench.
type statements struct {
	stack *stack
	path  string // of pgbench
	// arguments are what stands for the statements' arguments: SQL over pgbench's variables. As the product's own
	// arguments are, these variables are sent apart from the statement.
	arguments map[string]string
	variables []string
}

// newStatements returns nil if there is no pgbench.
func (s *stack) newStatements(paperID string) (*statements, error) {
	path, err := exec.LookPath("pgbench")
	if err != nil {
		paths, _ := filepath.Glob("/usr/lib/postgresql/*/bin/pgbench") // the pattern is well-formed
		if len(paths) == 0 {
			return nil, nil
		}
		path = paths[len(paths)-1]
	}
	event, err := scoredEvent(paperID)
	if err != nil {
		return nil, err
	}
	const (
		client  = ":client_id::int"
		counter = ":n::bigint"
		number  = "lpad(to_hex(" + client + "), 6, '0') || lpad(to_hex(" + counter + "), 24, '0')"
		owner   = "('0a' || lpad(to_hex(" + client + "), 30, '0'))::uuid"
		digest  = "decode(repeat('ab', 32), 'hex')"
	)
	return &statements{
		stack: s, path: path,
		variables: []string{"-D", "n=0", "-D", "answers=" + string(answerSheet()), "-D", "body=" + string(event.Body)},
		arguments: map[string]string{
			// Each client counts upwards, as the product's ids do with time.
			"id": "('0b' || " + number + ")::uuid", "account_id": owner, "family_id": owner, "key_id": owner,
			"exam_key": "'" + examKey + "-pgbench'::text", "paper_id": "'" + paperID + "'::text", "paper_digest": digest,
			"learner":        fmt.Sprintf("decode(lpad(to_hex(%s * %d + %s %% %d), 64, '0'), 'hex')", client, learnersPerConnection, counter, learnersPerConnection),
			"question_count": strconv.Itoa(questionsPerPaper), "opened_at": "now()", "expires_at": "now() + interval '3 hours'",
			"state": "'submitted'", "scoring_status": "'scored'", "submitted_at": "now()", "late": "false", "overtime_sec": "0",
			"score_hundredths": "4250", "answers": ":answers::jsonb", "submission_digest": digest,
			"event_ids":    "ARRAY[('0c' || " + number + ")::uuid, ('0d' || " + number + ")::uuid]",
			"event_kinds":  "ARRAY['mock_attempt.submitted', 'mock_attempt.scored']",
			"event_bodies": "ARRAY[:body::bytea, :body::bytea]",
		},
	}, nil
}

// run executes a statement so many times in each client, and measures it without what connecting costs.
func (st *statements) run(ctx context.Context, statement string, each int) (sample, error) {
	text, err := st.text(statement)
	if err != nil {
		return sample{}, err
	}
	file := st.stack.dir.Path(statement + ".sql")
	if err := os.WriteFile(file, []byte("\\set n :n + 1\n"+text), 0o600); err != nil {
		return sample{}, err
	}
	idle := st.stack.dir.Path("idle.sql")
	if err := os.WriteFile(idle, []byte("\\set n 1\n"), 0o600); err != nil {
		return sample{}, err
	}
	connecting, err := st.measure(ctx, idle, 1)
	if err != nil {
		return sample{}, err
	}
	s, err := st.measure(ctx, file, each)
	if err != nil {
		return s, err
	}
	for i := range connecting.cpu {
		s.cpu[i].cpu -= connecting.cpu[i].cpu
	}
	return s, nil
}

// argument is an argument of a statement as sqlc writes it.
var argument = regexp.MustCompile(`sqlc\.n?arg\((\w+)\)`)

// text cuts a statement out of the product's queries and puts values in the place of its arguments.
func (st *statements) text(name string) (string, error) {
	all, err := os.ReadFile(filepath.Join(st.stack.root, "server", "postgres", "queries", "attempts.sql"))
	if err != nil {
		return "", err
	}
	_, text, found := strings.Cut(string(all), "-- name: "+name+" ")
	if !found {
		return "", fmt.Errorf("there is no statement %s", name)
	}
	_, text, _ = strings.Cut(text, "\n")
	text, _, _ = strings.Cut(text, "-- name: ")
	var unknown []string
	text = argument.ReplaceAllStringFunc(text, func(found string) string {
		name := argument.FindStringSubmatch(found)[1]
		value, known := st.arguments[name]
		if !known {
			unknown = append(unknown, name)
		}
		return "(" + value + ")"
	})
	if len(unknown) > 0 {
		return "", fmt.Errorf("statement %s wants %s, for which there is no value here", name, strings.Join(unknown, ", "))
	}
	return text, nil
}

// measured is what pgbench says of a run, connecting left out.
var measured = regexp.MustCompile(`tps = ([0-9.]+) \(without initial connection time\)`)

func (st *statements) measure(ctx context.Context, file string, each int) (sample, error) {
	processes, err := st.stack.watched(processPostgres)
	if err != nil {
		return sample{}, err
	}
	w, err := startWatch(processes...)
	if err != nil {
		return sample{}, err
	}
	args := append([]string{"-n", "-M", "prepared", "-c", strconv.Itoa(connections), "-j", "2", "-t", strconv.Itoa(each), "-f", file}, st.variables...)
	cmd := exec.CommandContext(ctx, st.path, append(args, st.stack.databaseURL)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return sample{}, fmt.Errorf("pgbench: %w\n%s", err, out[:min(len(out), 500)])
	}
	s, err := w.stop()
	if err != nil {
		return s, err
	}
	s.operations = connections * each
	if found := measured.FindSubmatch(out); found != nil {
		if rate, err := strconv.ParseFloat(string(found[1]), 64); err == nil && rate > 0 {
			s.elapsed = time.Duration(float64(s.operations) / rate * float64(time.Second))
		}
	}
	s.cpu = append([]spent{{processPgbench, cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()}}, s.cpu...)
	return s, nil
}
