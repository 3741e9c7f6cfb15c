package postgres

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"golang.org/x/sync/semaphore"
)

// ReadKind is the kind of a call that a [Bulkhead] bounds, for its metrics.
type ReadKind string

// The kinds.
const (
	HistoryReads   ReadKind = "history"   // of attempts, by API key; the owner is the key's family
	DeveloperCalls ReadKind = "developer" // and changes, of a signed-in developer; the owner is the account, or the person in no account
)

// bulkheadSlots is the number of semaphores. Two owners that have the same one by chance share its limit.
const bulkheadSlots = 1024

// Bulkhead bounds the connections of a pool that the calls of one owner use at once. It guarantees that an owner whose calls
// are many, slow or blocked leaves the rest of the pool to others. The bound is strict: it holds while the owner is alone as
// well, because calls that had taken the whole pool could not give a connection back to the next owner before they end. Further
// calls of the owner wait in the order of their arrival, without a connection. The pool itself bounds the calls of all owners.
type Bulkhead struct {
	owners [bulkheadSlots]*semaphore.Weighted
	waits  *prometheus.CounterVec
	waited *prometheus.CounterVec
}

// NewBulkhead returns a bulkhead in front of pool, with limit connections for each owner; 0: a quarter of the pool, at least one.
// It panics if its metrics are already registered; a nil registerer takes none.
func NewBulkhead(registerer prometheus.Registerer, pool *pgxpool.Pool, limit uint) *Bulkhead {
	limit = cmp.Or(limit, uint(pool.Config().MaxConns)/4, 1)
	counter := func(name, help string) *prometheus.CounterVec {
		vec := promauto.With(registerer).NewCounterVec(prometheus.CounterOpts{Name: "examprep_postgres_family_" + name, Help: help}, []string{"reads"})
		for _, kind := range []ReadKind{HistoryReads, DeveloperCalls} {
			vec.WithLabelValues(string(kind))
		}
		return vec
	}
	b := &Bulkhead{
		waits: counter("waits_total",
			"Calls that waited because others of their key family, or of their developer account, used all connections that it may have."),
		waited: counter("wait_seconds_total", "Seconds that such calls waited."),
	}
	for i := range b.owners {
		b.owners[i] = semaphore.NewWeighted(int64(limit))
	}
	return b
}

// Enter waits until owner may use another connection, and returns the function that ends the use. It returns an error if ctx ends
// first. A nil Bulkhead has no limit.
func (b *Bulkhead) Enter(ctx context.Context, kind ReadKind, owner uuid.UUID) (leave func(), err error) {
	if b == nil {
		return func() {}, nil
	}
	slots := b.owners[binary.BigEndian.Uint16(owner[len(owner)-2:])%bulkheadSlots]
	if !slots.TryAcquire(1) {
		b.waits.WithLabelValues(string(kind)).Inc()
		start := time.Now()
		err := slots.Acquire(ctx, 1)
		b.waited.WithLabelValues(string(kind)).Add(time.Since(start).Seconds())
		if err != nil {
			return nil, fmt.Errorf("wait for other calls of the same owner: %w", err)
		}
	}
	return func() { slots.Release(1) }, nil
}
