package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// learnersPerConnection is how many learners each connection, and each client of pgbench, opens papers for.
const learnersPerConnection = 50

// processReference is the API pod of -reference.
const processReference = "reference"

// measureAttempts compares open and submit through the API with one statement per open or submit.
func measureAttempts(ctx context.Context, s *stack, duration time.Duration, r *report) error {
	if err := s.prepareAPI(ctx); err != nil {
		return err
	}
	statements, err := s.newStatements(ctx)
	if err != nil {
		return err
	}
	turn := turnTime(duration, gateTurns)
	sides := []*side{{crowd: newCrowd(s.keys, s.api), process: processAPI, pool: s.pool}}
	if s.reference != "" {
		reference, pool, err := s.startReference(ctx)
		if err != nil {
			return err
		}
		defer s.dropDatabase(context.WithoutCancel(ctx), pool)
		sides = append(sides, &side{crowd: reference, process: processReference, pool: pool})
	}
	for _, one := range sides {
		if err := one.crowd.warm(ctx); err != nil {
			return err
		}
	}
	var opened, submitted series // of pgbench
	for range gateTurns {
		for _, one := range sides {
			if err := one.turn(ctx, s, turn); err != nil {
				return err
			}
		}
		first := sides[0]
		open, submit, err := statements.turn(ctx, first.opens[len(first.opens)-1].operations/pgbenchClients)
		if err != nil {
			return err
		}
		opened, submitted = append(opened, open), append(submitted, submit)
	}
	reportAttempts(r, sides, opened, submitted)
	crowd := sides[0].crowd
	for _, path := range []struct {
		name string
		load load
	}{{"an open", crowd.open()}, {"a submit", crowd.submit()}} {
		err := s.noteStatements(ctx, s.pool, path.name, r, func(ctx context.Context) (int, error) {
			operations, _, err := path.load.drive(ctx, turn)
			return operations, err
		})
		if err != nil {
			return err
		}
	}
	crowd.forget()
	return nil
}

func reportAttempts(r *report, sides []*side, opened, submitted series) {
	ours := sides[0]
	cpu := func(names ...string) func(*sample) float64 {
		return func(one *sample) float64 { return one.micros(names...) }
	}
	for _, phase := range []struct {
		name           string
		ours, baseline series
		bar, goal      float64
	}{{"open", ours.opens, opened, 0.6, 0.3}, {"submit", ours.submits, submitted, 0.8, 0.4}} {
		r.medians(fmt.Sprintf("%s, %d keys", phase.name, connections), phase.ours)
		r.use(phase.name, phase.ours, processAPI, processPostgres)
		r.medians(fmt.Sprintf("  one statement, pgbench, %d clients", pgbenchClients), phase.baseline)
		r.judge(verdict{
			what: "attempts: " + phase.name + ", CPU of API + PostgreSQL / (pgbench + PostgreSQL)", unit: "×", bar: phase.bar, goal: phase.goal,
			measured: quotient(phase.ours, cpu(processAPI, processPostgres), phase.baseline, cpu(processPgbench, processPostgres)),
		})
	}
	for _, reference := range sides[1:] {
		r.medians("open, the reference", reference.opens)
		r.medians("submit, the reference", reference.submits)
		r.judge(verdict{
			what: "attempts: submit, CPU of the API / that of the reference", unit: "×", bar: 0.6, goal: 0.4,
			measured: quotient(ours.submits, cpu(processAPI), reference.submits, cpu(processReference)),
		})
	}
}

// side is an API pod on a database of its own, and what was measured of it.
type side struct {
	crowd          *crowd
	process        string
	pool           *pgxpool.Pool
	opens, submits series
}

// turn opens for a while, then submits what was opened.
func (one *side) turn(ctx context.Context, s *stack, duration time.Duration) error {
	for _, phase := range []struct {
		load     load
		duration time.Duration
		into     *series
	}{{one.crowd.open(), duration, &one.opens}, {one.crowd.submit(), 10 * duration, &one.submits}} {
		if err := analyse(ctx, one.pool); err != nil {
			return err
		}
		measured, err := s.during(ctx, phase.load, phase.duration, one.process, processPostgres, processRedis)
		if err != nil {
			return err
		}
		*phase.into = append(*phase.into, measured)
	}
	one.crowd.forget()
	return nil
}

// analyse does what autovacuum does within a minute: else statements keep plans that were made for empty tables.
func analyse(ctx context.Context, pool *pgxpool.Pool) error {
	_, err := pool.Exec(ctx, "ANALYZE attempts, attempt_counters")
	return err
}

// startReference seeds a database by the reference's own commands and starts its API.
func (s *stack) startReference(ctx context.Context) (*crowd, *pgxpool.Pool, error) {
	databaseURL, pool, err := s.createDatabase(ctx, processReference)
	if err != nil {
		return nil, nil, err
	}
	program := program{s, s.reference, databaseURL}
	if err := program.migrate(ctx); err != nil {
		return nil, pool, err
	}
	set, err := program.seed(ctx, pool, connections)
	if err != nil {
		return nil, pool, err
	}
	address, err := s.startPodOf(ctx, s.reference, processReference, "DATABASE_URL="+databaseURL, "EXAMPREP_REDIS_PREFIX=reference:")
	return newCrowd(set.all(), address), pool, err
}

// crowd is the clients of the load, with the attempts that each has opened and not yet submitted.
type crowd struct {
	// keys are the connections'; one connection more than there are keys has the first again.
	keys      []string
	addresses []string
	path      string
	opened    [connections][]string
}

func newCrowd(keys []string, addresses ...string) *crowd {
	return &crowd{keys: keys, addresses: addresses, path: "/v1/exam-prep/" + examKey + "/mock-exams/"}
}

// forget drops what was opened and not submitted.
func (c *crowd) forget() { c.opened = [connections][]string{} }

// warm lets every connection open and submit once, so that the paper and its key are in the API's memory.
func (c *crowd) warm(ctx context.Context) error {
	once := func(l load) load {
		all := l.request
		l.request = func(connection, n int) []byte {
			if n > 0 {
				return nil
			}
			return all(connection, n)
		}
		return l
	}
	for _, phase := range []load{once(c.open()), once(c.submit())} {
		if _, _, err := phase.drive(ctx, startTime); err != nil {
			return err
		}
	}
	c.forget()
	return nil
}

func learnerName(connection, n int) string {
	return fmt.Sprintf("learner-%d-%d", connection, n%learnersPerConnection)
}

func (c *crowd) open() load {
	return load{
		addresses: c.addresses,
		request: func(connection, n int) []byte {
			body := []byte(`{"paper_id":"` + paperID + `","learner_id":"` + learnerName(connection, n) + `"}`)
			return postRequest(c.addresses[0], c.path+"open", c.keys[connection%len(c.keys)], body)
		},
		answer: func(connection, _ int, body []byte) error {
			_, rest, found := bytes.Cut(body, []byte(`"attempt_id":"`))
			id, _, ends := bytes.Cut(rest, []byte(`"`))
			if !found || !ends {
				return errors.New("an opened attempt has no id")
			}
			c.opened[connection] = append(c.opened[connection], string(id))
			return nil
		},
	}
}

func (c *crowd) submit() load {
	answers := answerSheet()
	return load{
		addresses: c.addresses,
		request: func(connection, n int) []byte {
			if n >= len(c.opened[connection]) {
				return nil
			}
			body := []byte(`{"attempt_id":"` + c.opened[connection][n] + `","learner_id":"` + learnerName(connection, n) + `","answers":` + answers + `}`)
			return postRequest(c.addresses[0], c.path+"submit", c.keys[connection%len(c.keys)], body)
		},
	}
}

// answerSheet answers every question of a paper.
func answerSheet() string {
	sheet := []byte{'{'}
	for n := range questionsPerPaper {
		if n > 0 {
			sheet = append(sheet, ',')
		}
		sheet = strconv.AppendQuote(sheet, "1:"+strconv.Itoa(n+1))
		sheet = append(sheet, ':', '"', "ABCD"[n%4], '"')
	}
	return string(slices.Clip(append(sheet, '}')))
}
