package gate_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"examprep.dev/server/gate"
	"examprep.dev/server/keys"
	"examprep.dev/server/testkit"
)

// endless is a PostgreSQL that was away, and has more to announce ever since than one comparison of notes has time for.
type endless struct {
	*keys.Reader
	away  atomic.Bool
	terms atomic.Int64 // asked for while it was away
	pages atomic.Int64
	late  atomic.Int64 // ns by which the gate's clock is ahead
}

func (l *endless) Term(ctx context.Context, server string) (keys.Term, error) {
	if l.away.Load() {
		l.terms.Add(1)
		return keys.Term{}, errors.New("away")
	}
	return l.Reader.Term(ctx, server)
}

func (l *endless) Pending(ctx context.Context, after uuid.UUID, most int) ([]keys.Record, error) {
	records, err := l.Reader.Pending(ctx, after, most)
	if len(records) == most {
		l.pages.Add(1)
		l.late.Add(int64(time.Second))
	}
	return records, err
}

func (l *endless) MarkAnnounced(context.Context, []keys.Record) error { return nil }

// TestABlindPodThatIsBehindBelievesNothing: it cannot be sure of a change that another pod, which does not reach Redis, has
// taken for known everywhere.
func TestABlindPodThatIsBehindBelievesNothing(t *testing.T) {
	t.Parallel()
	h := newHouse(t, nil)
	loader := &endless{Reader: keys.NewReader(h.pool)}
	pod := gate.New(patient(gate.Config{
		Prefix: h.prefix, Now: func() time.Time { return time.Now().Add(time.Duration(loader.late.Load())) },
	}), h.rdb, loader)
	testkit.Run(t, pod.Run)
	key := h.create(t, "")
	if !allowed(pod, key) {
		t.Fatal("refused from the beginning")
	}
	loader.away.Store(true)
	testkit.Eventually(t, "the pod has missed PostgreSQL", func() bool { return loader.terms.Load() > 1 })
	h.createMany(t, 10_000, 2)
	loader.away.Store(false)
	testkit.Eventually(t, "the pod is behind", func() bool { return loader.pages.Load() > 1 })
	gone := testkit.StartRedis(t)
	revoker := gate.New(gate.Config{Prefix: h.prefix}, clientOf(t, gone), keys.NewReader(h.pool))
	gone.Kill()
	if err := keys.NewStore(h.pool, revoker).Revoke(t.Context(), key.Prefix); err != nil {
		t.Fatal(err)
	}
	for range 100 {
		if allowed(pod, key) {
			t.Fatal("a request passed after the revocation was answered")
		}
	}
}
