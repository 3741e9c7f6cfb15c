//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
)

// loadLosesNothing lets all clients open, page and submit at once, and finds every answered submission in history with
// its score, and both of its events at the receiver.
func loadLosesNothing(t *testing.T, s *stack, papers []*paper) {
	crowd := s.letLoose(t, papers, nil)
	t.Logf("%d clients for %s:\n%s", *clients, *duration, s.api.meter)
	if failed := s.api.meter.count(func(status int) bool { return status == 0 || status >= 500 }); failed > 0 {
		t.Errorf("%d requests without an answer or with a 5xx", failed)
	}
	s.checkKept(t, crowd)
}

// learner is one client under load: what it did and what came of it.
type learner struct {
	id     string
	chance *rand.Rand
	// opened counts openings that were answered; perhaps counts those that may have happened, their answer lost.
	opened, perhaps map[string]int
	sat             []sitting
}

// sitting is one submission.
type sitting struct {
	exam, attempt, score string
	// answered tells that the client saw 200; otherwise the submission is either whole or untouched.
	answered bool
}

// letLoose runs the clients for the set time, with something happening meanwhile.
func (s *stack) letLoose(t *testing.T, papers []*paper, meanwhile func()) []*learner {
	t.Helper()
	s.receiver.forget(t)
	s.api.meter = newMeter()
	run := strconv.FormatInt(time.Now().UnixNano(), 36)
	crowd := make([]*learner, *clients)
	until := time.Now().Add(*duration)
	var all errgroup.Group
	for i := range crowd {
		crowd[i] = &learner{
			id: fmt.Sprintf("e2e-%s-%d", run, i), chance: rand.New(rand.NewPCG(uint64(*seed), uint64(i))),
			opened: map[string]int{}, perhaps: map[string]int{},
		}
		all.Go(func() error { return crowd[i].study(t.Context(), s.api, papers, until) })
	}
	if meanwhile != nil {
		meanwhile()
	}
	if err := all.Wait(); err != nil {
		t.Error(err)
	}
	return crowd
}

// study opens, pages and submits until the time is over. A request without an answer is not repeated, by the
// specification's rules: the learner turns to another paper.
func (l *learner) study(ctx context.Context, client *api, papers []*paper, until time.Time) error {
	for time.Now().Before(until) {
		err := l.sit(ctx, client, papers[l.chance.IntN(len(papers))])
		var refused *statusError
		if errors.As(err, &refused) && refused.status != http.StatusServiceUnavailable {
			return err
		}
		if err != nil && !wait(ctx, 100*time.Millisecond) {
			return err
		}
	}
	return nil
}

func (l *learner) sit(ctx context.Context, client *api, p *paper) error {
	const first = 9
	opened, err := client.open(ctx, p, l.id, first)
	if err != nil {
		l.perhaps[p.Exam]++
		return err
	}
	l.opened[p.Exam]++
	for offset := first; offset < min(len(p.Questions), first+2*pageSize); offset += pageSize {
		page, err := client.page(ctx, p, l.id, offset, pageSize)
		if err != nil {
			return err
		}
		if err := compare(page.Questions[0], p.Questions[offset]); err != nil {
			return &statusError{opPage, http.StatusOK, err.Error()}
		}
	}
	filled := fill(p, anyhow, l.chance)
	result, err := client.submit(ctx, p, l.id, opened.ID, filled.Answers)
	l.sat = append(l.sat, sitting{exam: p.Exam, attempt: opened.ID, score: filled.Score, answered: err == nil})
	if err == nil && result.Feedback.Score.String() != filled.Score {
		return &statusError{opSubmit, http.StatusOK, fmt.Sprintf("score %s, want %s", result.Feedback.Score, filled.Score)}
	}
	return err
}

// checkKept compares what the clients saw with history and with what the receiver got.
func (s *stack) checkKept(t *testing.T, crowd []*learner) {
	t.Helper()
	var toldOf []string
	lost := 0
	for _, l := range crowd {
		kept := map[string]attemptSummary{}
		for exam := range union(l.opened, l.perhaps) {
			history, err := s.api.history(t.Context(), exam, l.id)
			if err != nil {
				t.Fatal(err)
			}
			if n := len(history); n < l.opened[exam] || n > l.opened[exam]+l.perhaps[exam] {
				t.Errorf("%s has %d attempts at %s, want %d to %d", l.id, n, exam, l.opened[exam], l.opened[exam]+l.perhaps[exam])
			}
			for _, attempt := range history {
				kept[attempt.ID] = attempt
			}
		}
		for _, one := range l.sat {
			got := kept[one.attempt]
			switch {
			case got.State == "submitted" && got.Score.String() == one.score:
				toldOf = append(toldOf, one.attempt)
			case !one.answered && got.State == "in_progress" && got.Score == "":
				lost++ // untouched: the client saw no 200
			default:
				t.Errorf("attempt %s (answered %v) is %q with score %q, want %s", one.attempt, one.answered, got.State, got.Score, one.score)
			}
		}
	}
	t.Logf("%d submissions are in history with their scores; %d that got no answer left their attempt untouched", len(toldOf), lost)
	if len(toldOf) == 0 {
		t.Fatal("nothing was submitted")
	}
	s.receiver.await(t, toldOf)
}

func union(a, b map[string]int) map[string]bool {
	keys := map[string]bool{}
	for key := range a {
		keys[key] = true
	}
	for key := range b {
		keys[key] = true
	}
	return keys
}
