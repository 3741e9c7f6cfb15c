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
	clients := newClients(s.keys, s.api)
	if err := clients.warm(ctx); err != nil {
		return err
	}
	var opens, submits, opened, submitted series // of the API, of pgbench
	for range gateTurns {
		open, submit, err := s.attemptsTurn(ctx, clients, turn)
		if err != nil {
			return err
		}
		opens, submits = append(opens, open), append(submits, submit)
		if open, submit, err = statements.turn(ctx, open.operations/pgbenchClients); err != nil {
			return err
		}
		opened, submitted = append(opened, open), append(submitted, submit)
	}
	reportAttempts(r, opens, submits, opened, submitted)
	for _, path := range []struct {
		name string
		load load
	}{{"an open", clients.open()}, {"a submit", clients.submit()}} {
		err := s.noteStatements(ctx, s.pool, path.name, r, func(ctx context.Context) (int, error) {
			operations, _, err := path.load.drive(ctx, turn)
			return operations, err
		})
		if err != nil {
			return err
		}
	}
	clients.forget()
	return nil
}

func reportAttempts(r *report, opens, submits, opened, submitted series) {
	cpu := func(names ...string) func(*sample) float64 {
		return func(one *sample) float64 { return one.micros(names...) }
	}
	for _, phase := range []struct {
		name           string
		ours, baseline series
		bar, goal      float64
	}{{"open", opens, opened, 0.6, 0.3}, {"submit", submits, submitted, 0.8, 0.4}} {
		r.medians(fmt.Sprintf("%s, %d keys", phase.name, connections), phase.ours)
		r.use(phase.name, phase.ours, processAPI, processPostgres)
		r.medians(fmt.Sprintf("  one statement, pgbench, %d clients", pgbenchClients), phase.baseline)
		r.judge(verdict{
			what: "attempts: " + phase.name + ", CPU of API + PostgreSQL / (pgbench + PostgreSQL)", unit: "×", bar: phase.bar, goal: phase.goal,
			measured: quotient(phase.ours, cpu(processAPI, processPostgres), phase.baseline, cpu(processPgbench, processPostgres)),
		})
	}
}

// attemptsTurn opens for a while, then submits what was opened.
func (s *stack) attemptsTurn(ctx context.Context, clients *clients, duration time.Duration) (open, submit sample, err error) {
	defer clients.forget()
	for _, phase := range []struct {
		load     load
		duration time.Duration
		into     *sample
	}{{clients.open(), duration, &open}, {clients.submit(), 10 * duration, &submit}} {
		if err := analyse(ctx, s.pool); err != nil {
			return open, submit, err
		}
		if *phase.into, err = s.during(ctx, phase.load, phase.duration, processAPI, processPostgres, processRedis); err != nil {
			return open, submit, err
		}
	}
	return open, submit, nil
}

// analyse does what autovacuum does within a minute: else statements keep plans that were made for empty tables.
func analyse(ctx context.Context, pool *pgxpool.Pool) error {
	_, err := pool.Exec(ctx, "ANALYZE attempts, attempt_counters")
	return err
}

// clients are the connections of a load, with the attempts that each has opened and not yet submitted.
type clients struct {
	// keys are the connections'; one connection more than there are keys has the first again.
	keys      []string
	addresses []string
	path      string
	opened    [connections][]string
}

func newClients(keys []string, addresses ...string) *clients {
	return &clients{keys: keys, addresses: addresses, path: "/v1/exam-prep/" + examKey + "/mock-exams/"}
}

// forget drops what was opened and not submitted.
func (c *clients) forget() { c.opened = [connections][]string{} }

// warm lets every connection open and submit once, so that the paper and its key are in the API's memory.
func (c *clients) warm(ctx context.Context) error {
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

func (c *clients) open() load {
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

func (c *clients) submit() load {
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
