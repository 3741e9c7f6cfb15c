package directory_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"examprep.dev/server/gate/gatetest"
	"examprep.dev/server/keys"
	"examprep.dev/server/keys/directory"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

func TestSilentPodDelaysOneChangeOnly(t *testing.T) {
	pool := testkit.Database(t)
	clock, timings := gatetest.NewClock(), gatetest.Timings()
	start(t, pool, directory.Config{Clock: clock.Read})
	exec(t, pool, "INSERT INTO api_pods (id, applied) VALUES ($1, 1)", uuid.New())
	create(t, pool, "acme")
	waits := func(kind keys.ChangeKind) (waited time.Duration, err error) { // while the time passes
		begun := clock.Read().Monotonic
		clock.PassWhile(t, pool, 1, func() {
			err = confirmBy(t, pool, kind, directory.AuthorConfig{Clock: clock.Read, Timings: timings})
		})
		return clock.Read().Monotonic - begun, err
	}
	if waited, err := waits(keys.Addition); err != nil || waited < timings.Wait {
		t.Errorf("the author waited %s for a silent pod, %v; want %s at least", waited, err, timings.Wait)
	}
	check.Equal(t, testkit.Get[int](t, pool, "SELECT count(*) FROM api_pods WHERE lost_at IS NOT NULL"), 1, "lost rows")
	create(t, pool, "acme")
	begun := clock.Read().Monotonic
	confirmed := confirmBy(t, pool, keys.Addition, directory.AuthorConfig{Clock: clock.Read, Timings: timings})
	if waited := clock.Read().Monotonic - begun; confirmed != nil || waited >= timings.Wait {
		t.Errorf("the next author waited %s, %v", waited, confirmed)
	}
	timings.Limit = directory.Production().Limit
	_, err := waits(keys.Restriction)
	if unconfirmed, ok := errors.AsType[*keys.UnconfirmedError](err); !ok || unconfirmed.Silent != 1 {
		t.Errorf("a restriction that no pod can tell Redis: got %v, want an UnconfirmedError of one silent pod", err)
	}
}

func TestPodThatTellsRedisConfirmsForALostPod(t *testing.T) {
	pool := testkit.Database(t)
	rdb, prefix := testkit.Redis(t)
	start(t, pool, directory.Config{Board: directory.NewRedisBoard(rdb, prefix)})
	exec(t, pool, "INSERT INTO api_pods (id, applied, lost_at) VALUES ($1, 1, now())", uuid.New())
	create(t, pool, "acme")
	confirm(t, pool, keys.Restriction)
}

// TestAnAuthorBelievesNoStandby: a function of the same name plays the standby.
func TestAnAuthorBelievesNoStandby(t *testing.T) {
	pool := testkit.Database(t)
	confirm(t, pool, keys.Restriction)
	exec(t, pool, "CREATE SCHEMA standby")
	exec(t, pool, "CREATE FUNCTION standby.pg_is_in_recovery() RETURNS boolean LANGUAGE sql AS 'SELECT true'")
	exec(t, pool, "ALTER DATABASE "+pool.Config().ConnConfig.Database+" SET search_path = standby, public, pg_catalog")
	pool.Reset()
	clock := gatetest.NewClock()
	err := confirmBy(t, pool, keys.Restriction, directory.AuthorConfig{Timings: directory.Production(), Clock: func() directory.Reading {
		clock.Pass(time.Second) // the author gives up soon
		return clock.Read()
	}})
	if unconfirmed, ok := errors.AsType[*keys.UnconfirmedError](err); !ok || !strings.Contains(unconfirmed.Error(), "standby") {
		t.Errorf("got %v, want an UnconfirmedError that names the standby", err)
	}
}

func TestOnlyPodsThatRenewHaveAShare(t *testing.T) {
	pool := testkit.Database(t)
	exec(t, pool, "INSERT INTO api_pods (id, applied, renewed_at) SELECT gen_random_uuid(), 1, now() - interval '1 day' FROM generate_series(1, 9)")
	exec(t, pool, "INSERT INTO api_pods (id, applied) VALUES ($1, 1)", uuid.New())
	d, _ := start(t, pool, directory.Config{})
	check.Equal(t, d.Pods(), 2, "pods")
}

func TestPodThatEndsDeletesItsRow(t *testing.T) {
	pool := testkit.Database(t)
	d, stop := start(t, pool, directory.Config{})
	stop()
	var rows int
	if err := pool.QueryRow(t.Context(), "SELECT count(*) FROM api_pods").Scan(&rows); err != nil || rows != 0 {
		t.Errorf("%d rows are left, %v", rows, err)
	}
	if _, status := d.Find(t.Context(), keys.Hash{}); status != directory.Unavailable {
		t.Errorf("a pod that ended has status %d", status)
	}
}
