package delivery

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"examprep.dev/server/postgres"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
	"examprep.dev/server/webhooks"
)

const (
	// chaosEvents says how many events happen (make soak: 100,000), chaosSeed which faults, when and to whom.
	chaosEvents = "WEBHOOKS_TEST_EVENTS"
	chaosSeed   = "WEBHOOKS_TEST_SEED"
	// soakSize is from when on a run is long enough to judge the share of duplicates by.
	soakSize = 50_000
	// chaosPrefix begins the workers' Redis names.
	chaosPrefix = "chaos:"
)

// TestEveryEventArrivesWhateverFails records events without a pause while worker processes are killed and stopped, while
// Redis is killed, flushed, away and failed over by its Sentinel, while PostgreSQL is restarted, while endpoints come and
// go, and while receivers fail. Then it asks what came of each event, of the receivers and of the database.
func TestEveryEventArrivesWhateverFails(t *testing.T) {
	testkit.Soak(t)
	events, seed := testkit.Size(t, chaosEvents, 600), testkit.Size(t, chaosSeed, time.Now().UnixNano())
	t.Logf("%s=%d %s=%d", chaosEvents, events, chaosSeed, seed)
	ctx := watched(t)
	s := newStage(ctx, t, int(events), uint64(seed))
	s.play(ctx, t)
	s.judge(ctx, t)
}

// watched ends in time for the test to say what it waited for.
func watched(t *testing.T) context.Context {
	t.Helper()
	deadline, limited := t.Deadline()
	if !limited {
		return t.Context()
	}
	ctx, cancel := context.WithDeadline(t.Context(), deadline.Add(-30*time.Second))
	t.Cleanup(cancel)
	return ctx
}

// stage is all that takes part.
type stage struct {
	chaos    *chaos
	pool     *pgxpool.Pool
	notifier *webhooks.Notifier
	managed  *webhooks.Managed
	receiver *chaosReceiver
	history  *history
	course   *course
	seed     uint64
	accounts []uuid.UUID

	// The endpoints by what becomes of them; steady ones stay as they are.
	steady                              []*target
	deleted, withdrawn, off, late, gone *target
}

func newStage(ctx context.Context, t *testing.T, events int, seed uint64) *stage {
	t.Helper()
	s := &stage{seed: seed, history: newHistory(), course: newCourse(events)}
	database, redises := testkit.StartPostgres(t), startRedises(ctx, t)
	check.NoError(t, postgres.Migrate(ctx, database.URL, postgres.Sandbox))
	s.pool = testkit.Open(t, database.URL)
	testkit.Exec(t, s.pool, chaosTables)
	s.notifier = webhooks.NewNotifier(redises.client, chaosPrefix, slog.New(slog.DiscardHandler))
	testkit.Run(t, s.notifier.Run)
	s.managed = webhooks.NewManaged(s.pool, testKeyring(t), webhooks.NewAddressPolicy(loopback))
	for range 3 {
		id := uuid.New()
		s.accounts = append(s.accounts, id)
		testkit.Exec(t, s.pool, "INSERT INTO accounts (id, name) VALUES ($1, $2)", id, id.String())
	}
	s.receiver = newChaosReceiver(t, seed, s.cast(), s.history)
	for _, to := range s.receiver.targets {
		if to != s.late {
			check.NoError(t, s.register(ctx, to))
		}
	}
	authority := testkit.CAPEM(s.receiver.Server)
	s.chaos = &chaos{
		postgres: database, redis: redises, course: s.course, logf: t.Logf, began: time.Now(), injected: make(map[string]int),
		workers: newWorkerProcesses(t, 3, database.URL, redises.URL(), chaosPrefix, authority),
		chance:  rand.New(rand.NewPCG(seed, 1)), away: 2 * time.Second,
	}
	if events >= soakSize {
		s.chaos.away = time.Minute
	}
	return s
}

// cast makes the endpoints: of three accounts and of nobody, for some kinds or all, good and bad.
func (s *stage) cast() (all []*target) {
	add := func(account int, how temper, kinds ...webhooks.Kind) *target {
		to := &target{
			index: len(all), temper: how, kinds: kinds,
			known: make(chan struct{}), goes: make(chan struct{}), arrived: make(map[uuid.UUID]*arrival),
		}
		if account >= 0 {
			to.account = uuid.NullUUID{UUID: s.accounts[account], Valid: true}
		}
		all = append(all, to)
		return to
	}
	failing := temper{50, []misdeed{answersStatus(http.StatusInternalServerError, ""), cutsConnection}}
	busy := temper{20, []misdeed{answersStatus(http.StatusServiceUnavailable, "1"), answersStatus(http.StatusFound, "")}}
	slow := temper{2, []misdeed{saysNothing}}
	s.steady = []*target{
		add(-1, temper{}, webhooks.Kinds()...),
		add(0, temper{}, webhooks.Kinds()...),
		add(0, failing, webhooks.KindSubmitted),
		add(1, slow, webhooks.KindScored, webhooks.KindContentUpdated),
		add(2, busy, webhooks.KindScored),
	}
	s.deleted = add(2, temper{}, webhooks.Kinds()...)
	s.withdrawn = add(-1, failing, webhooks.KindContentUpdated)
	s.off = add(1, temper{}, webhooks.KindSubmitted)
	s.late = add(2, temper{}, webhooks.KindSubmitted, webhooks.KindContentUpdated)
	s.gone = add(1, temper{}, webhooks.KindScored)
	s.gone.goneFrom = s.course.goal / 100
	return all
}

func (s *stage) owner(to *target) string { return fmt.Sprintf("chaos/ns/%d", to.index) }

// register applies an endpoint with a secret that its receiver knows from then on.
func (s *stage) register(ctx context.Context, to *target) error {
	want := webhooks.ManagedEndpoint{
		Owner: s.owner(to), URL: s.receiver.url(to), Events: to.kinds, Account: to.account, Secret: webhooks.NewSecret(),
	}
	return testkit.Await(ctx, "an endpoint is changed", func(ctx context.Context) error {
		endpoint, err := s.managed.Apply(ctx, want)
		if err != nil {
			return err
		}
		to.id, to.secret, to.since = endpoint.ID, want.Secret, time.Now()
		close(to.known)
		return nil
	})
}

// play lets it all happen, and returns when nothing is pending and the workers have left.
func (s *stage) play(ctx context.Context, t *testing.T) {
	t.Helper()
	chance := rand.New(rand.NewPCG(s.seed, 2))
	order := s.chaos.schedule(max(1, s.course.goal/20_000))
	working, leave := context.WithCancel(ctx)
	defer leave()
	var workers errgroup.Group
	for slot := range s.chaos.workers.running {
		workers.Go(func() error { return s.chaos.workers.keep(working, slot) })
	}
	traffic, during := errgroup.WithContext(ctx)
	for n := range uint64(4) {
		r := &recorder{
			pool: s.pool, notifier: s.notifier, history: s.history, course: s.course, accounts: s.accounts,
			chance: rand.New(rand.NewPCG(s.seed, 10+n)),
		}
		traffic.Go(func() error { return r.record(during) })
	}
	traffic.Go(func() error { return s.chaos.upsetStores(during, order) })
	traffic.Go(func() error { return s.chaos.upsetWorkers(during, 2*len(order), chance) })
	traffic.Go(func() error { return s.changeEndpoints(during) })
	traffic.Go(func() error { return s.seeItGone(during) })
	check.NoError(t, traffic.Wait())
	s.chaos.logf("%7.1fs all has happened", time.Since(s.chaos.began).Seconds())
	s.settle(ctx, t)
	leave()
	check.NoError(t, workers.Wait())
	s.chaos.logf("%7.1fs all has settled", time.Since(s.chaos.began).Seconds())
}

// settle waits until nothing is pending.
func (s *stage) settle(ctx context.Context, t *testing.T) {
	t.Helper()
	err := testkit.Await(ctx, "nothing is pending", func(ctx context.Context) error {
		var pending int
		var sample *string
		err := s.pool.QueryRow(ctx, `SELECT count(*), max(d::text) FROM webhook_deliveries d WHERE state = 'pending'`).Scan(&pending, &sample)
		if err == nil && pending > 0 {
			err = fmt.Errorf("%d are, such as %s", pending, *sample)
		}
		return err
	})
	check.NoError(t, err)
}

// changeEndpoints deletes, disables, enables and adds endpoints at points of the course.
func (s *stage) changeEndpoints(ctx context.Context) error {
	remove := func(to *target) error {
		err := testkit.Await(ctx, "an endpoint is changed", func(ctx context.Context) error { return s.managed.Delete(ctx, s.owner(to)) })
		to.end()
		return err
	}
	suspend := func(to *target, suspended bool) error {
		return testkit.Await(ctx, "an endpoint is changed", func(ctx context.Context) error {
			_, err := s.managed.Apply(ctx, webhooks.ManagedEndpoint{
				Owner: s.owner(to), URL: s.receiver.url(to), Events: to.kinds, Account: to.account, Secret: to.secret,
				Suspend: suspended,
			})
			return err
		})
	}
	mark := func(to *target) func() error { return func() error { to.settled = time.Now(); return nil } }
	for _, change := range []struct {
		percent int
		do      func() error
	}{
		{10, mark(s.off)},
		{20, func() error {
			if err := s.settled(ctx, s.off); err != nil {
				return err
			}
			err := suspend(s.off, true)
			s.off.off[0] = time.Now()
			return err
		}},
		{21, mark(s.deleted)},
		{33, func() error { return errors.Join(s.settled(ctx, s.deleted), remove(s.deleted)) }},
		{45, func() error {
			s.off.off[1] = time.Now()
			err := suspend(s.off, false)
			s.off.since = time.Now()
			return err
		}},
		{50, func() error { return s.register(ctx, s.late) }},
		{55, mark(s.withdrawn)},
		{66, func() error { return errors.Join(s.settled(ctx, s.withdrawn), remove(s.withdrawn)) }},
	} {
		if !s.course.reach(ctx, s.course.goal*change.percent/100) {
			return ctx.Err()
		}
		if err := change.do(); err != nil {
			return err
		}
	}
	return nil
}

// settled waits, while an endpoint is there still, for the events that happened up to its mark: those that come later may
// be pending when it goes, and end with it.
func (s *stage) settled(ctx context.Context, to *target) error {
	return testkit.Await(ctx, fmt.Sprintf("endpoint %d has what happened before its end", to.index), func(context.Context) error {
		for _, event := range s.history.before(to.settled) {
			if to.wants(event) && !to.acknowledged(event.ID) {
				return fmt.Errorf("event %s never arrived", event.ID)
			}
		}
		return nil
	})
}

// seeItGone waits until the endpoint whose receiver says 410 is seen to be disabled.
func (s *stage) seeItGone(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-s.gone.goes:
	}
	err := testkit.Await(ctx, "the endpoint that is gone is disabled", func(ctx context.Context) error {
		health, err := s.managed.Health(ctx, s.owner(s.gone))
		if err == nil && health.DisabledReason != reasonGone {
			err = errors.New("it is enabled")
		}
		return err
	})
	s.gone.end()
	return err
}

// wanted reports whether an event must have arrived: its endpoint was there before and stayed, or stayed for as long as it
// took those events to arrive.
func wanted(to *target, event *happening) bool {
	stayed := to.ended.IsZero() && event.began.After(to.since)
	settled := !event.committed.IsZero() && event.committed.Before(to.settled)
	return to.wants(event) && (stayed || settled)
}

// unwanted reports whether an event must not have arrived: it happened while the endpoint was off.
func unwanted(to *target, event *happening) bool {
	return !to.off[0].IsZero() && event.began.After(to.off[0]) && !event.committed.IsZero() && event.committed.Before(to.off[1])
}

// sorted are a count's names in order.
func sorted(counts map[string]int) []string {
	names := make([]string, 0, len(counts))
	for name := range counts {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
