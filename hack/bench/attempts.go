package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"

	"examprep.dev/server/webhooks"
)

// learnersPerConnection is how many learners each connection, and each client of pgbench, opens papers for.
const learnersPerConnection = 50

// measureAttempts compares open and submit through the API with their statements alone.
func measureAttempts(ctx context.Context, s *stack, duration time.Duration, r *report) error {
	if err := s.prepareAPI(ctx); err != nil {
		return err
	}
	crowd := newCrowd(s)
	if err := crowd.warm(ctx); err != nil {
		return err
	}
	baseline, err := s.newStatements(crowd.paperID)
	if err != nil {
		return err
	}
	for _, phase := range []struct {
		name, statement string
		load            load
		duration        time.Duration
	}{
		{"open", "OpenAttempt", crowd.open(), duration},
		{"submit", "CloseAttempt", crowd.submit(), 10 * duration}, // until what was opened is submitted
	} {
		// As autovacuum does within a minute. Without it statements would go on with plans made for empty tables.
		if _, err := s.pool.Exec(ctx, "ANALYZE attempts, attempt_counters"); err != nil {
			return err
		}
		ours, err := s.during(ctx, phase.load, phase.duration, processAPI, processPostgres, processRedis)
		if err != nil {
			return err
		}
		r.row(phase.name, &ours)
		each := ours.operations / connections
		if baseline == nil || each == 0 {
			r.notef("%s was not compared: there is no pgbench here, or too little was done.", phase.name)
			continue
		}
		theirs, err := baseline.run(ctx, phase.statement, each)
		if err != nil {
			return err
		}
		r.row("  pgbench, the same statement", &theirs)
		r.judge(verdict{
			what: phase.name + ": CPU of API + PostgreSQL / (pgbench + PostgreSQL)", unit: "×", target: 1.6,
			measured: ours.micros(processAPI, processPostgres) / theirs.micros(processPgbench, processPostgres),
		})
	}
	return nil
}

// crowd is the clients that sit papers: what each has opened and not yet submitted.
type crowd struct {
	stack         *stack
	paperID, path string
	opened        [connections][]string
}

func newCrowd(s *stack) *crowd {
	return &crowd{stack: s, paperID: examKey + "-0000", path: "/v1/exam-prep/" + examKey + "/mock-exams/"}
}

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
	c.opened = [connections][]string{}
	return nil
}

func learnerName(connection, n int) string {
	return fmt.Sprintf("learner-%d-%d", connection, n%learnersPerConnection)
}

func (c *crowd) open() load {
	return load{
		addresses: []string{c.stack.api},
		request: func(connection, n int) []byte {
			body := []byte(`{"paper_id":"` + c.paperID + `","learner_id":"` + learnerName(connection, n) + `"}`)
			return postRequest(c.stack.api, c.path+"open", c.stack.keys[connection], body)
		},
		answer: func(connection, _ int, body []byte) error {
			const before = `{"attempt_id":"`
			rest, found := bytes.CutPrefix(body, []byte(before))
			id, _, ends := bytes.Cut(rest, []byte(`"`))
			if !found || !ends {
				return errors.New("an opened attempt does not begin with its id")
			}
			c.opened[connection] = append(c.opened[connection], string(id))
			return nil
		},
	}
}

func (c *crowd) submit() load {
	answers := string(answerSheet())
	return load{
		addresses: []string{c.stack.api},
		request: func(connection, n int) []byte {
			if n >= len(c.opened[connection]) {
				return nil
			}
			body := []byte(`{"attempt_id":"` + c.opened[connection][n] + `","learner_id":"` + learnerName(connection, n) + `","answers":` + answers + `}`)
			return postRequest(c.stack.api, c.path+"submit", c.stack.keys[connection], body)
		},
	}
}

// answerSheet answers every question of a paper.
func answerSheet() json.RawMessage {
	sheet := []byte{'{'}
	for n := range questionsPerPaper {
		if n > 0 {
			sheet = append(sheet, ',')
		}
		sheet = strconv.AppendQuote(sheet, "1:"+strconv.Itoa(n+1))
		sheet = append(sheet, ':', '"', "ABCD"[n%4], '"')
	}
	return slices.Clip(append(sheet, '}'))
}

// scoredEvent is a webhook's body as a submission writes it.
func scoredEvent(paperID string) (webhooks.Event, error) {
	return webhooks.NewEvent(webhooks.KindScored, uuid.NullUUID{}, time.Now(), webhooks.AttemptScored{
		AttemptID: uuid.NewString(), ExamKey: examKey, PaperID: paperID, Score: 42.5, LearnerIDProvided: true,
	})
}
