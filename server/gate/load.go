package gate

import (
	"context"
	"crypto/rand"
	"errors"

	"github.com/google/uuid"

	"examprep.dev/server/keys"
)

// Loader is what the gate needs of PostgreSQL; *keys.Reader and *keys.Store are loaders.
type Loader interface {
	// LoadMany returns the records of those hashes that name a key, as of one snapshot taken after the call.
	LoadMany(ctx context.Context, hashes []keys.Hash) ([]keys.Record, error)
	// Term says whether a Redis server is the one that all gates agree on, and since when.
	Term(ctx context.Context, server string) (keys.Term, error)
	// Pending returns records, by key id from the one after on, whose version was not announced.
	Pending(ctx context.Context, after uuid.UUID, limit int) ([]keys.Record, error)
	// MarkAnnounced notes that Redis has these versions.
	MarkAnnounced(ctx context.Context, records []keys.Record) error
}

// loadOutcome is what loading a key into Redis came to.
type loadOutcome uint8

const (
	loadFailed loadOutcome = iota
	loadStored             // Redis has something verified now; ask again
	loadAbsent             // PostgreSQL has no such key
)

// load brings one key's record from PostgreSQL into Redis: a ticket, the read, the put. However many requests need it,
// one load per key is under way in this pod.
func (g *Gate) load(ctx context.Context, hash keys.Hash) (loadOutcome, error) {
	done := g.loads.DoChan(string(hash[:]), func() (any, error) {
		// Whoever came first may leave; the others still wait.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), g.cfg.Timeout)
		defer cancel()
		return g.loadOnce(ctx, hash)
	})
	select {
	case <-ctx.Done():
		return loadFailed, ctx.Err()
	case result := <-done:
		outcome, _ := result.Val.(loadOutcome)
		return outcome, result.Err
	}
}

func (g *Gate) loadOnce(ctx context.Context, hash keys.Hash) (loadOutcome, error) {
	t, err := g.trusted(ctx)
	if err != nil {
		return loadFailed, err
	}
	s := subject{id: hash}
	records, field := g.recordsOf(&s), s.field()
	ticket, err := g.rdb.Do(ctx, "evalsha", t.sha, 1, records, "t", t.term, field, newTicket()).Text()
	if err != nil {
		return loadFailed, g.failed(ctx, t, err)
	}
	if ticket == "" {
		return loadStored, nil
	}
	var found outcome
	g.postgres.do(ctx, &s, &found)
	g.metrics.load(found)
	if found.err != nil {
		return loadFailed, &postgresError{found.err}
	}
	version, static := versionBytes(0), []byte{statusAbsent}
	if found.record != nil {
		version, static = versionBytes(found.record.Version), staticBytes(*found.record)
	}
	if err := g.rdb.Do(ctx, "evalsha", t.sha, 1, records, "p", t.term, field, ticket, version, static).Err(); err != nil {
		return loadFailed, g.failed(ctx, t, err)
	}
	// A put that was refused is no failure: something newer is there, or will be loaded when it is asked for.
	if found.record == nil {
		return loadAbsent, nil
	}
	return loadStored, nil
}

// newTicket returns a ticket that no load had before, neither of this pod nor of another: whether a put is in time is
// decided by the ticket alone, not by clocks.
func newTicket() []byte {
	ticket := make([]byte, termSize)
	_, _ = rand.Read(ticket) // never fails
	ticket[0] = 255
	return ticket
}

// failed draws the consequence of a failed call, unless it was the caller who ran out of time.
func (g *Gate) failed(ctx context.Context, t *trust, err error) error {
	if ctx.Err() == nil || !errors.Is(err, ctx.Err()) {
		g.distrust(t, err)
	}
	return err
}

// runPostgres reads the keys of a batch. A request's key is read after the request came, never before: what it is told
// is no older than itself.
func (g *Gate) runPostgres(asks []*ask) {
	ctx, cancel := context.WithTimeout(context.Background(), g.cfg.Timeout)
	defer cancel()
	hashes := make([]keys.Hash, len(asks))
	for i, a := range asks {
		hashes[i] = a.subject.id
	}
	records, err := g.loader.LoadMany(ctx, hashes)
	found := make(map[keys.Hash]*keys.Record, len(records))
	for i := range records {
		found[records[i].Hash] = &records[i]
	}
	for _, a := range asks {
		a.outcome.record, a.outcome.err = found[a.subject.id], err
	}
}
