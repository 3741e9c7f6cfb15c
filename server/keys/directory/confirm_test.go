package directory_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"

	"examprep.dev/server/keys"
	"examprep.dev/server/keys/directory"
	"examprep.dev/server/testkit"
)

func TestSilentPodDelaysOneChangeOnly(t *testing.T) {
	pool := testkit.Database(t)
	start(t, pool, directory.Config{})
	exec(t, pool, "INSERT INTO api_pods (id, applied) VALUES ($1, 1)", uuid.New())
	create(t, pool, "acme")
	before := time.Now()
	confirm(t, pool, keys.Addition)
	if waited := time.Since(before); waited < 2*time.Second {
		t.Errorf("the author waited %s for a silent pod, want a lease at least", waited)
	}
	var lost int
	if err := pool.QueryRow(t.Context(), "SELECT count(*) FROM api_pods WHERE lost_at IS NOT NULL").Scan(&lost); err != nil || lost != 1 {
		t.Errorf("%d rows are lost, %v; want 1", lost, err)
	}
	create(t, pool, "acme")
	next := func(kind keys.ChangeKind) error { // by an author that gives up before it has waited for a silent pod
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		return directory.NewAuthor(pool, directory.AuthorConfig{}).Confirm(ctx, kind)
	}
	testkit.Eventually(t, "an author does not wait again", func() bool { return next(keys.Addition) == nil })
	testkit.Eventually(t, "a restriction that no pod can tell Redis waits for the silent pod", func() bool {
		err := next(keys.Restriction)
		if err == nil {
			t.Fatal("a restriction that no pod can tell Redis is confirmed")
		}
		unconfirmed, ok := errors.AsType[*keys.UnconfirmedError](err)
		return ok && unconfirmed.Silent == 1
	})
}

func TestPodThatTellsRedisConfirmsForALostPod(t *testing.T) {
	pool := testkit.Database(t)
	rdb, prefix := testkit.Redis(t)
	start(t, pool, directory.Config{Board: directory.NewRedisBoard(rdb, prefix)})
	exec(t, pool, "INSERT INTO api_pods (id, applied, lost_at) VALUES ($1, 1, now())", uuid.New())
	create(t, pool, "acme")
	confirm(t, pool, keys.Restriction)
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
