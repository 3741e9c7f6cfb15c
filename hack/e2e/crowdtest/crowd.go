package crowdtest

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

// Config shapes a crowd.
type Config struct {
	// Clients are how many learners there are at once.
	Clients int
	// Seed is where their random choices begin.
	Seed int64
	// Papers are what they sit.
	Papers []*Paper
}

// Crowd is learners at work. Each opens a paper, pages through it, submits it and turns to the next.
type Crowd struct {
	api      *API
	learners []*learner
	stopping chan struct{}
	all      errgroup.Group
}

// learner is one client: what it did and what came of it. It belongs to its goroutine until the crowd has stopped.
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

// Start lets a crowd loose on the service. Stop ends it.
func Start(ctx context.Context, api *API, cfg Config) *Crowd {
	crowd := &Crowd{api: api, stopping: make(chan struct{})}
	run := strconv.FormatInt(time.Now().UnixNano(), 36)
	for i := range cfg.Clients {
		l := &learner{
			id: fmt.Sprintf("e2e-%s-%d", run, i), chance: rand.New(rand.NewPCG(uint64(cfg.Seed), uint64(i))),
			opened: map[string]int{}, perhaps: map[string]int{},
		}
		crowd.learners = append(crowd.learners, l)
		crowd.all.Go(func() error { return l.study(ctx, api, cfg.Papers, crowd.stopping) })
	}
	return crowd
}

// Stop lets every learner end the paper it sits, and fails the test if one of them was answered wrongly.
func (c *Crowd) Stop(t *testing.T) {
	t.Helper()
	close(c.stopping)
	if err := c.all.Wait(); err != nil {
		t.Error(err)
	}
}

// study opens, pages and submits until the crowd stops. A request without an answer is not repeated, by the
// specification's rules: the learner turns to another paper.
func (l *learner) study(ctx context.Context, api *API, papers []*Paper, stopping <-chan struct{}) error {
	for {
		select {
		case <-stopping:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		default:
		}
		err := l.sit(ctx, api, papers[l.chance.IntN(len(papers))])
		var refused *StatusError
		if errors.As(err, &refused) && refused.Status != http.StatusServiceUnavailable {
			return err
		}
		if err != nil && !wait(ctx, 100*time.Millisecond) {
			return err
		}
	}
}

func (l *learner) sit(ctx context.Context, api *API, p *Paper) error {
	const first = 9
	var catalogue []byte
	if err := api.Call(ctx, OpCatalog, http.MethodGet, Path(p.Exam, "/mock-exams"), nil, &catalogue); err != nil {
		return err
	}
	opened, err := api.Open(ctx, p, l.id, first)
	if err != nil {
		l.perhaps[p.Exam]++
		return err
	}
	l.opened[p.Exam]++
	for offset := first; offset < min(len(p.Questions), first+2*PageSize); offset += PageSize {
		page, err := api.Page(ctx, p, l.id, offset, PageSize)
		if err != nil {
			return err
		}
		if err := Compare(page.Questions[0], p.Questions[offset]); err != nil {
			return &StatusError{OpPage, http.StatusOK, err.Error()}
		}
	}
	filled := Fill(p, Anyhow, l.chance)
	result, err := api.Submit(ctx, p, l.id, opened.ID, filled.Answers)
	l.sat = append(l.sat, sitting{exam: p.Exam, attempt: opened.ID, score: filled.Score, answered: err == nil})
	if err == nil && result.Feedback.Score.String() != filled.Score {
		return &StatusError{OpSubmit, http.StatusOK, fmt.Sprintf("score %s, want %s", result.Feedback.Score, filled.Score)}
	}
	return err
}

// CheckKept is CheckHistory, and then finds both events of every submission at the receiver.
func (c *Crowd) CheckKept(t *testing.T, api *API, receiver *Receiver) {
	t.Helper()
	receiver.Await(t, c.CheckHistory(t, api))
}

// CheckHistory compares what the learners of a stopped crowd saw with history, read through api: every submission that
// was answered is there with its score, every other is whole or untouched. It returns the attempts that were submitted.
func (c *Crowd) CheckHistory(t *testing.T, api *API) (submitted []string) {
	t.Helper()
	untouched := 0
	for _, l := range c.learners {
		kept := l.history(t, api)
		for _, one := range l.sat {
			got := kept[one.attempt]
			switch {
			case got.State == "submitted" && got.Score.String() == one.score:
				submitted = append(submitted, one.attempt)
			case !one.answered && got.State == "in_progress" && got.Score == "":
				untouched++ // the client saw no 200
			default:
				t.Errorf("attempt %s (answered %v) is %q with score %q, want %s", one.attempt, one.answered, got.State, got.Score, one.score)
			}
		}
	}
	t.Logf("%d submissions are in history with their scores; %d that got no answer left their attempt untouched", len(submitted), untouched)
	if len(submitted) == 0 {
		t.Fatal("nothing was submitted")
	}
	return submitted
}

// history reads all attempts of a learner, and fails the test when there are fewer or more than were opened.
func (l *learner) history(t *testing.T, api *API) map[string]Summary {
	t.Helper()
	kept := map[string]Summary{}
	for exam := range union(l.opened, l.perhaps) {
		history, err := api.History(t.Context(), exam, l.id)
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
	return kept
}

// Submissions counts what the learners of a stopped crowd were answered.
func (c *Crowd) Submissions() int {
	answered := 0
	for _, l := range c.learners {
		for _, one := range l.sat {
			if one.answered {
				answered++
			}
		}
	}
	return answered
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
