package httpapi_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"examprep.dev/server/attempts"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/apitest"
	"examprep.dev/server/testkit/check"
)

// The tests here submit one attempt several times at once: docs/spec.md, part 3, "Second submission", and the first row of
// the table in docs/spec.md, part 10.

const racers = 64

// crowd is a number of clients. Each has an open connection of its own.
type crowd struct {
	api     *api
	clients []*http.Client
}

func (a *api) crowd(size int) *crowd {
	a.t.Helper()
	c := &crowd{api: a}
	for range size {
		c.clients = append(c.clients, &http.Client{Transport: &http.Transport{MaxConnsPerHost: 1, DisableCompression: true}})
	}
	a.t.Cleanup(func() {
		for _, client := range c.clients {
			client.CloseIdleConnections()
		}
	})
	if err := c.atOnce(func(i int) error {
		if _, err := c.call(i, http.MethodGet, "/v1/exam-prep/list", ""); err != nil {
			return err
		}
		return nil
	}); err != nil {
		a.t.Fatal(err)
	}
	return c
}

// atOnce lets every client do something at the same moment.
func (c *crowd) atOnce(do func(i int) error) error {
	start := make(chan struct{})
	var group errgroup.Group
	for i := range c.clients {
		group.Go(func() error {
			<-start
			return do(i)
		})
	}
	close(start)
	return group.Wait()
}

// call sends a request over the connection of one client. It may run on any goroutine.
func (c *crowd) call(client int, method, path, body string) (response, error) {
	request, err := http.NewRequestWithContext(c.api.t.Context(), method, "http://"+c.api.Address+path, strings.NewReader(body))
	if err != nil {
		return response{}, err
	}
	request.Header.Set("Authorization", "Bearer "+c.api.Key)
	request.Header.Set("Content-Type", "application/json")
	got, err := c.clients[client].Do(request)
	if err != nil {
		return response{}, err
	}
	defer func() { _ = got.Body.Close() }()
	content, err := io.ReadAll(got.Body)
	return response{status: got.StatusCode, header: got.Header, body: string(content), closes: got.Close}, err
}

func (c *crowd) race(body func(i int) string) []response {
	c.api.t.Helper()
	answers := make([]response, len(c.clients))
	err := c.atOnce(func(i int) (err error) {
		answers[i], err = c.call(i, http.MethodPost, examPath+"/mock-exams/submit", body(i))
		return err
	})
	check.NoError(c.api.t, err)
	for _, answer := range answers {
		checkAnswer(c.api.t, http.MethodPost, examPath+"/mock-exams/submit", answer)
	}
	return answers
}

func submissionOf(id, letter string) string {
	return fmt.Sprintf(`{"attempt_id":%q,"answers":{"1:1":%q,"2:2":"photosynthesis"}}`, id, letter)
}

func (a *api) events(id string) map[string]int {
	a.t.Helper()
	rows, err := a.Pool.Query(a.t.Context(),
		"SELECT kind FROM webhook_events WHERE convert_from(body, 'UTF8')::jsonb -> 'data' ->> 'attempt_id' = $1", id)
	check.NoError(a.t, err)
	kinds, err := pgx.CollectRows(rows, pgx.RowTo[string])
	check.NoError(a.t, err)
	counts := map[string]int{}
	for _, kind := range kinds {
		counts[kind]++
	}
	return counts
}

// toldOnce checks that an attempt has its two events, or, when it was never submitted, none.
func (a *api) toldOnce(id string, submitted bool) {
	a.t.Helper()
	want := 0
	if submitted {
		want = 1
	}
	if got := a.events(id); got["mock_attempt.submitted"] != want || got["mock_attempt.scored"] != want || len(got) != 2*want {
		a.t.Errorf("attempt %s, submitted %v: events %v", id, submitted, got)
	}
}

// TestOfDifferentSubmissionsAtOnceOneWins sends each of four submissions sixteen times. Each client that sent the winner gets the
// same result.
func TestOfDifferentSubmissionsAtOnceOneWins(t *testing.T) {
	t.Parallel()
	a := newAPI(t, apitest.Options{})
	c := a.crowd(racers)
	letters := []string{"A", "B", "C", ""}
	for range 5 {
		id := a.open()
		answers := c.race(func(i int) string { return submissionOf(id, letters[i%len(letters)]) })
		won, result := -1, ""
		for i, answer := range answers {
			switch {
			case answer.status == http.StatusBadRequest && answer.code(t) == "attempt_already_submitted":
			case answer.status != http.StatusOK:
				t.Fatalf("%d %s", answer.status, answer.body)
			case won < 0:
				won, result = i%len(letters), answer.body
			case i%len(letters) != won || answer.body != result:
				t.Errorf("two winners:\n%s\n%s", result, answer.body)
			}
		}
		for i, answer := range answers {
			check.Equal(t, answer.status == http.StatusOK, i%len(letters) == won, "client %d of the winner's kind %d: %d %s", i, won, answer.status, answer.body)
		}
		a.toldOnce(id, true)
	}
}

// TestSubmissionsThatMeetTheSweepAgree: all responses are the same, whether a submission or the sweep comes first.
func TestSubmissionsThatMeetTheSweepAgree(t *testing.T) {
	t.Parallel()
	a := newAPI(t, apitest.Options{})
	c := a.crowd(racers)
	sweeper := attempts.NewSweeper(a.Pool, slog.New(slog.DiscardHandler), nil)
	outcomes := map[string]int{}
	for round := range 20 {
		id := a.open()
		// From well before the end of the late window to well behind it, most of them close to it.
		left := time.Duration(3*round-10) * time.Millisecond
		if round == 0 {
			left = time.Hour
		}
		testkit.Exec(t, a.Pool, "UPDATE attempts SET opened_at = opened_at - interval '2 days', expires_at = $2 WHERE id = $1",
			id, time.Now().Add(left-24*time.Hour))
		stop := make(chan struct{})
		var sweeping errgroup.Group
		sweeping.Go(func() error {
			for {
				if _, err := sweeper.Sweep(t.Context()); err != nil {
					return err
				}
				select {
				case <-stop:
					return nil
				default:
				}
			}
		})
		answers := c.race(func(int) string { return submissionOf(id, "B") })
		close(stop)
		check.NoError(t, sweeping.Wait())
		for _, answer := range answers {
			if answer.body != answers[0].body {
				t.Fatalf("%d %s\nbeside %s", answer.status, answer.body, answers[0].body)
			}
		}
		if code := answers[0].status; code != http.StatusOK && answers[0].code(t) != "attempt_closed" {
			t.Fatalf("%d %s", code, answers[0].body)
		}
		outcomes[http.StatusText(answers[0].status)]++
		a.toldOnce(id, answers[0].status == http.StatusOK)
	}
	check.Equal(t, len(outcomes), 2, "only one side ever won: %v", outcomes)
}

// TestASubmissionWhoseDatabaseConnectionBreaksIsWholeOrUntouched breaks all connections of the server to its database
// again and again, at random moments. Each submission is recorded whole or not at all (docs/spec.md, part 10, first row).
func TestASubmissionWhoseDatabaseConnectionBreaksIsWholeOrUntouched(t *testing.T) {
	t.Parallel()
	a := newAPI(t, apitest.Options{})
	ids := make(chan string, 200)
	for range cap(ids) {
		ids <- a.open()
	}
	close(ids)
	observer := a.observer()
	c := a.crowd(4)
	running, stop := context.WithCancel(t.Context())
	defer stop()
	breaker, breaking := errgroup.WithContext(running)
	finished := make(chan struct{})
	breaker.Go(func() error { return observer.breakOthers(breaking, finished) })
	var mu sync.Mutex
	seen := map[string]int{}
	err := c.atOnce(func(i int) error {
		for id := range ids {
			answer, err := c.call(i, http.MethodPost, examPath+"/mock-exams/submit", submissionOf(id, "B"))
			if err != nil {
				return err
			}
			whole, err := observer.isWhole(t.Context(), id)
			if err != nil {
				return err
			}
			mu.Lock()
			seen[fmt.Sprintf("%d, whole: %v", answer.status, whole)]++
			mu.Unlock()
			if answer.status == http.StatusServiceUnavailable && answer.header.Get("Retry-After") != "" {
				continue
			}
			if answer.status != http.StatusOK || !whole {
				return fmt.Errorf("attempt %s, whole: %v, was answered %d %s", id, whole, answer.status, answer.body)
			}
			select { // so there are as many rounds as it takes, however fast they are
			case finished <- struct{}{}:
			case <-breaking.Done():
			}
		}
		return nil
	})
	stop()
	check.NoError(t, breaker.Wait())
	check.NoError(t, err)
	t.Log(seen)
	if broken, finished := seen["503, whole: false"]+seen["503, whole: true"], seen["200, whole: true"]; min(broken, finished) < 5 {
		t.Errorf("too few were broken, or finished, to tell: %v", seen)
	}
	a.everySubmissionCanBeRetried()
}

// everySubmissionCanBeRetried sends every attempt's submission again, twice: now each succeeds, once.
func (a *api) everySubmissionCanBeRetried() {
	a.t.Helper()
	a.Pool.Reset() // else each connection that was broken would cost one more answer
	ids := testkit.List[string](a.t, a.Pool, "SELECT id::text FROM attempts")
	for _, id := range ids {
		first := a.post(examPath+"/mock-exams/submit", submissionOf(id, "B"))
		again := a.post(examPath+"/mock-exams/submit", submissionOf(id, "B"))
		if first.status != http.StatusOK || again.body != first.body {
			a.t.Errorf("attempt %s was answered %d %s, then %d %s", id, first.status, first.body, again.status, again.body)
		}
		a.toldOnce(id, true)
	}
}

// observer looks at the server's database over connections that are not broken.
type observer struct {
	mu      sync.Mutex
	looking *pgx.Conn
	cutting *pgx.Conn
}

func (a *api) observer() *observer {
	a.t.Helper()
	connect := func() *pgx.Conn {
		config := a.Pool.Config().ConnConfig.Copy()
		config.RuntimeParams["application_name"] = "observer"
		conn, err := pgx.ConnectConfig(a.t.Context(), config)
		check.NoError(a.t, err)
		a.t.Cleanup(func() { _ = conn.Close(context.Background()) })
		return conn
	}
	return &observer{looking: connect(), cutting: connect()}
}

// breakOthers ends about half of the other connections to the database, after random pauses, until its context ends. It
// waits for a finished submission before each round, so that some finish on a slow machine too.
func (o *observer) breakOthers(ctx context.Context, finished <-chan struct{}) error {
	for {
		select {
		case <-finished:
		case <-ctx.Done():
			return nil
		}
		if _, err := o.cutting.Exec(context.WithoutCancel(ctx), `SELECT pg_sleep(random() * 0.02), pg_terminate_backend(pid) FROM pg_stat_activity
			WHERE datname = current_database() AND application_name <> 'observer' AND random() < 0.5`); err != nil {
			return err
		}
	}
}

// isWhole reports whether an attempt was submitted, with all that belongs to it. It fails when there is only a part.
func (o *observer) isWhole(ctx context.Context, id string) (bool, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	var state, scoring string
	var answered, submitted, scored bool
	var events int
	if err := o.looking.QueryRow(ctx, `SELECT state, scoring_status, answers IS NOT NULL AND submission_digest IS NOT NULL, submitted_at IS NOT NULL,
		score_hundredths IS NOT NULL, (SELECT count(*) FROM webhook_events WHERE convert_from(body, 'UTF8')::jsonb -> 'data' ->> 'attempt_id' = a.id::text)
		FROM attempts a WHERE id = $1`, id).Scan(&state, &scoring, &answered, &submitted, &scored, &events); err != nil {
		return false, err
	}
	switch got := fmt.Sprint(state, scoring, answered, submitted, scored, events); got {
	case fmt.Sprint("submitted", "scored", true, true, true, 2):
		return true, nil
	case fmt.Sprint("in_progress", "pending", false, false, false, 0):
		return false, nil
	default:
		return false, fmt.Errorf("attempt %s is neither whole nor untouched: %s", id, got)
	}
}
