package gate

import (
	"context"
	"crypto/sha1" //nolint:gosec // the name by which Redis knows a script
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"examprep.dev/server/keys"
)

// script is the body of the gate's script; see [trust] for what stands before it.
//
//go:embed script.lua
var script string

const (
	// trustMargin is added where the trust of other pods is waited out: clocks of two machines may differ by that much
	// over a few seconds.
	trustMargin = 500 * time.Millisecond
	// pendingChunk is how many unannounced keys are announced at a time.
	pendingChunk = 500
	// storeTimeout bounds the questions to PostgreSQL in one comparison of notes.
	storeTimeout = time.Second
	// firstPause and longestPause are how long nothing is sent to a Redis that failed.
	firstPause, longestPause = 100 * time.Millisecond, time.Second
)

// trust is why a pod believes Redis: it knows which server it talks to, PostgreSQL agrees that this is the server that
// counts, and every change committed before `since` was announced to it.
type trust struct {
	server string // identity of the server, or of all masters of a Cluster together
	// sha names the script as loaded on that server. Its text begins with the server's identity, and it was loaded on
	// the connection that told the identity: a server that knows this name is that server, or this one's next life.
	sha   string
	term  string // 8 bytes, as in records
	since time.Time
	until time.Time // by the pod's monotonic clock
	// settled is when no other pod can believe in the server of an earlier term any more.
	settled time.Time
	// blind says that PostgreSQL could not be asked when the trust was to be renewed: Redis is believed as it stands,
	// until PostgreSQL is back or Redis changes.
	blind bool
}

func (t *trust) valid(now time.Time) bool { return t != nil && (t.blind || now.Before(t.until)) }

// errors of establishing trust; all mean that Redis is not to be believed now.
var (
	errOverloaded = errors.New("gate: too many requests wait")
	errPaused     = errors.New("gate: Redis failed a moment ago")
	errSuperseded = errors.New("gate: the gates agree on another Redis server")
	errLostTrust  = errors.New("gate: trust in Redis ran out during the call")
)

// postgresError marks a failure of PostgreSQL, not of Redis.
type postgresError struct{ err error }

func (e *postgresError) Error() string { return e.err.Error() }
func (e *postgresError) Unwrap() error { return e.err }

// breaker keeps a pod from waiting for a Redis that failed. It is open while there is no trust and the pause lasts; it
// is half open while one goroutine tries, and the others go on without Redis.
type breaker struct {
	state   func(float64) // told of breakerClosed, breakerHalfOpen, breakerOpen
	working sync.Mutex    // held while trust is established or renewed

	mu    sync.Mutex
	next  time.Time     // nothing is tried before
	pause time.Duration // 0 while Redis is believed, and until the first failure
}

// The states of a breaker, as the metric shows them.
const (
	breakerClosed   = 0
	breakerHalfOpen = 1
	breakerOpen     = 2
)

// trip lengthens the pause, from firstPause to longestPause, and starts it.
func (b *breaker) trip(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pause = min(max(2*b.pause, firstPause), longestPause)
	b.next = now.Add(b.pause)
	b.state(breakerOpen)
}

func (b *breaker) reset() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pause, b.next = 0, time.Time{}
	b.state(breakerClosed)
}

// enter returns nil when the caller may try; it holds working then.
func (b *breaker) enter(now time.Time) error {
	b.mu.Lock()
	failing, next := b.pause > 0, b.next
	b.mu.Unlock()
	if now.Before(next) {
		return errPaused
	}
	if !failing {
		b.working.Lock()
		return nil
	}
	if !b.working.TryLock() {
		return errPaused
	}
	b.state(breakerHalfOpen)
	return nil
}

// trusted returns a trust that is valid now, renewing or establishing it if need be.
func (g *Gate) trusted(ctx context.Context) (*trust, error) {
	if t := g.trust.Load(); t.valid(g.cfg.Now()) {
		return t, nil
	}
	if err := g.breaker.enter(g.cfg.Now()); err != nil {
		return nil, err
	}
	defer g.breaker.working.Unlock()
	if t := g.trust.Load(); t.valid(g.cfg.Now()) { // another has done it meanwhile
		return t, nil
	}
	return g.compareNotes(ctx)
}

// renew is trusted ahead of time: it compares notes though trust may be valid.
func (g *Gate) renew(ctx context.Context) {
	if err := g.breaker.enter(g.cfg.Now()); err != nil {
		return
	}
	defer g.breaker.working.Unlock()
	_, _ = g.compareNotes(ctx)
}

// distrust ends a trust after a failed call. The pause is for failures that cost time; a server that has merely changed
// is established at once.
func (g *Gate) distrust(t *trust, err error) {
	if !g.trust.CompareAndSwap(t, nil) || redis.HasErrorPrefix(err, "NOSCRIPT") {
		return
	}
	g.cfg.Logger.Warn("gate: Redis is not believed any more; keys are checked in PostgreSQL", "error", err)
	g.metrics.setDegraded(true)
	g.breaker.trip(g.cfg.Now())
}

// compareNotes renews or establishes trust. The caller has entered the breaker.
func (g *Gate) compareNotes(ctx context.Context) (*trust, error) {
	// Whose request it is does not matter: the outcome is everybody's.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout+4*g.cfg.CallTimeout)
	defer cancel()
	old := g.trust.Load()
	t, err := g.agree(ctx, old, g.cfg.Now())
	var postgres *postgresError
	var behind *behindError
	switch {
	case err == nil:
		g.breaker.reset()
		if old == nil || old.term != t.term {
			g.cfg.Logger.Info("gate: Redis is believed", "server", t.server)
		}
		g.metrics.setDegraded(false)
	case errors.As(err, &behind) && old.valid(g.cfg.Now()) && !old.blind:
		t = old // for as long as it lasts; blind trust would last for ever, though PostgreSQL is back
	case errors.As(err, &postgres) && old != nil:
		if !old.blind {
			g.cfg.Logger.Warn("gate: PostgreSQL cannot be asked; Redis is believed as it stands", "error", err)
		}
		blind := *old
		t, blind.blind = &blind, true
	default:
		g.breaker.trip(g.cfg.Now())
		g.cfg.Logger.Warn("gate: Redis cannot be believed", "error", err)
		g.metrics.setDegraded(true)
	}
	if !g.trust.CompareAndSwap(old, t) {
		return nil, errLostTrust // a call failed meanwhile
	}
	return t, nilIfTrusted(t, err)
}

func nilIfTrusted(t *trust, err error) error {
	if t != nil {
		return nil
	}
	return err
}

// agree does the work of compareNotes: which server is this, does PostgreSQL agree, and does it know all changes.
func (g *Gate) agree(ctx context.Context, old *trust, since time.Time) (*trust, error) {
	t := &trust{since: since, until: since.Add(g.cfg.Trust)}
	if old != nil {
		t.server, t.sha = old.server, old.sha
	}
	var err error
	for known := old != nil; ; known = false {
		if !known {
			if t.server, t.sha, err = g.identify(ctx); err != nil {
				return nil, err
			}
		}
		if err = g.agreeTerm(ctx, t); err == nil {
			break
		}
		// What we knew of the server may be of yesterday: look again before giving up.
		if !known || !errors.Is(err, errSuperseded) {
			return nil, err
		}
	}
	err = g.announcePending(ctx, t)
	if old != nil && redis.HasErrorPrefix(err, "NOSCRIPT") {
		return g.agree(ctx, nil, since)
	}
	if err != nil {
		return nil, err
	}
	return t, nil
}

// agreeTerm fills in the term of the server, as PostgreSQL sees it.
func (g *Gate) agreeTerm(ctx context.Context, t *trust) error {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	asked := g.cfg.Now()
	term, err := g.loader.Term(ctx, t.server)
	if err != nil {
		return &postgresError{err}
	}
	if !term.Current {
		return errSuperseded
	}
	t.term = termBytes(term.Number)
	if term.Number > 1 {
		t.settled = asked.Add(g.cfg.Trust + trustMargin - term.Age)
	}
	return nil
}

// behindError says that so many changes are to be announced, or PostgreSQL tells of them so slowly, that it takes more
// than one comparison of notes. Until all are, trust is not renewed: a pod that did so would break the promise of
// [Gate.Announce]. Nor is it blind: PostgreSQL, which has just told the term, is there.
type behindError struct{}

func (*behindError) Error() string { return "gate: there is more to announce than time" }

// announcePending announces to the server of t whatever PostgreSQL says was not announced. It stops before the trust that
// is to be renewed ends, since requests wait for it then; what is left is announced by others or by the next comparison.
func (g *Gate) announcePending(ctx context.Context, t *trust) error {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	after := uuid.Nil
	for {
		records, err := g.loader.Pending(ctx, after, pendingChunk)
		if err != nil {
			return slowOrAway(ctx, err)
		}
		if len(records) == 0 {
			return nil
		}
		if err := g.write(ctx, t, records); err != nil {
			return err
		}
		if err := g.loader.MarkAnnounced(ctx, records); err != nil {
			return slowOrAway(ctx, err)
		}
		after = records[len(records)-1].KeyID
		if len(records) == pendingChunk && g.cfg.Now().Sub(t.since) > g.cfg.Trust/renewals {
			return &behindError{}
		}
	}
}

// slowOrAway tells a PostgreSQL that took longer than ctx allowed from one that cannot be asked.
func slowOrAway(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return &behindError{}
	}
	return &postgresError{err}
}

// identify asks every master who it is and loads the script there, each on one connection. The number of hashes is part
// of the answer. Pods that take a server for a Cluster do not see the announcements of pods that take it for a single
// server. So each takes the other's for a different server, of which one counts.
func (g *Gate) identify(ctx context.Context) (server, sha string, err error) {
	masters, err := g.masters(ctx)
	if err != nil {
		return "", "", err
	}
	conns := make([]*redis.Conn, 0, len(masters))
	defer func() {
		for _, conn := range conns {
			_ = conn.Close()
		}
	}()
	identities := make([]string, 0, len(masters))
	for _, master := range masters {
		conn := master.Conn()
		conns = append(conns, conn)
		identity, err := identityOf(ctx, conn)
		if err != nil {
			return "", "", err
		}
		identities = append(identities, identity)
	}
	slices.Sort(identities)
	sum := sha256.Sum256(fmt.Appendf(nil, "%d hashes\n%s", len(g.records), strings.Join(identities, "\n")))
	server = hex.EncodeToString(sum[:16])
	text := "-- server " + server + "\n" + script
	name := sha1.Sum([]byte(text)) //nolint:gosec // Redis's own choice
	sha = hex.EncodeToString(name[:])
	for _, conn := range conns {
		if known, err := conn.ScriptExists(ctx, sha).Result(); err == nil && known[0] {
			continue
		}
		if err := conn.ScriptLoad(ctx, text).Err(); err != nil {
			return "", "", fmt.Errorf("load gate script: %w", err)
		}
	}
	return server, sha, nil
}

// notMasterError says that a server that should be a master is not.
type notMasterError struct{ role string }

func (e *notMasterError) Error() string { return fmt.Sprintf("gate: Redis has the role %q", e.role) }

// identityOf names the present reign of a server: its process, and its history of data, which changes with every
// fail-over.
func identityOf(ctx context.Context, conn *redis.Conn) (string, error) {
	info, err := conn.Info(ctx).Result()
	if err != nil {
		return "", fmt.Errorf("ask Redis who it is: %w", err)
	}
	facts := map[string]string{}
	for line := range strings.Lines(info) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			facts[name] = value
		}
	}
	if facts["role"] != "master" {
		return "", &notMasterError{role: facts["role"]}
	}
	return facts["run_id"] + "/" + facts["master_replid"], nil
}

// masters returns a client of each server that holds records.
func (g *Gate) masters(ctx context.Context) ([]*redis.Client, error) {
	switch client := g.rdb.(type) {
	case *redis.Client:
		return []*redis.Client{client}, nil
	case *redis.ClusterClient:
		var mu sync.Mutex
		var masters []*redis.Client
		err := client.ForEachMaster(ctx, func(_ context.Context, master *redis.Client) error {
			mu.Lock()
			defer mu.Unlock()
			masters = append(masters, master)
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("list Redis masters: %w", err)
		}
		return masters, nil
	default:
		return nil, fmt.Errorf("gate: cannot work with a Redis client of type %T", g.rdb)
	}
}

var _ Loader = (*keys.Reader)(nil)
