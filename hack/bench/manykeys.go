package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"examprep.dev/hack/dev/process"
	"examprep.dev/server/keys"
)

const (
	// zipfExponent is that of the usual benchmarks of key-value stores, as near to 1 as math/rand draws.
	zipfExponent = 1.01
	// draws is how many requests there are until the same keys come again.
	draws = 1 << 20
	// touchClients bring the keys into Redis: more of them make larger reads of PostgreSQL.
	touchClients = 256
	// touchPasses is how often all of them are used, if need be.
	touchPasses = 5
	// rollUpTime bounds how long it takes until the use of all keys is in the usage.
	rollUpTime = 5 * time.Minute
	// rewriteTime bounds how long Redis takes to write its file anew.
	rewriteTime = 2 * time.Minute
	// keyBytes is what a key may take in Redis.
	keyBytes = 300
)

// keySet is the texts of keys, end to end: a million strings apart would cost the load generator what is not the
// server's.
type keySet struct {
	host string
	text []byte
}

func (k keySet) count() int { return len(k.text) / keys.Length }

// requests returns a load that asks with the key that which names. Each connection has a buffer of its own.
func (k keySet) requests(clients int, which func(connection, n int) (key int, more bool)) load {
	whole := getRequest(k.host, overviewPath, string(k.text[:keys.Length]))
	at := bytes.Index(whole, k.text[:keys.Length])
	buffers := make([][]byte, clients)
	for i := range buffers {
		buffers[i] = bytes.Clone(whole)
	}
	return load{addresses: []string{k.host}, clients: clients, request: func(connection, n int) []byte {
		key, more := which(connection, n)
		if !more {
			return nil
		}
		copy(buffers[connection][at:], k.text[key*keys.Length:][:keys.Length])
		return buffers[connection]
	}}
}

// zipf asks with keys drawn in advance, which lie in the order in which they come: to look for each among all of them would
// cost the load generator what is not the server's. A turn goes on where the last one ended.
func (k keySet) zipf() load {
	draw := rand.NewZipf(rand.New(rand.NewPCG(5, 0)), zipfExponent, 1, uint64(k.count()-1))
	drawn := keySet{host: k.host, text: make([]byte, 0, draws*keys.Length)}
	for range draws {
		key := int(draw.Uint64())
		drawn.text = append(drawn.text, k.text[key*keys.Length:][:keys.Length]...)
	}
	place := 0
	return drawn.requests(connections, func(int, int) (int, bool) {
		place = (place + 1) % draws
		return place, true
	})
}

// once asks with each key once.
func (k keySet) once() load {
	return k.requests(touchClients, func(connection, n int) (int, bool) {
		key := n*touchClients + connection
		return key, key < k.count()
	})
}

// measureManyKeys compares traffic over many keys, Zipf-distributed, with the same over the usual number, in turns.
func measureManyKeys(ctx context.Context, s *stack, duration time.Duration, r *report) error {
	usual, err := s.warmOverviews(ctx, duration)
	if err != nil {
		return err
	}
	s.say("making %d keys", s.manyKeys)
	many, err := s.insertKeys(ctx, s.manyKeys)
	if err != nil {
		return err
	}
	s.say("using each once")
	each, err := s.touch(ctx, many)
	if err != nil {
		return err
	}
	few := keySet{host: s.api, text: []byte(strings.Join(s.keys, ""))}
	turn := turnTime(duration, keysTurns)
	run := func(l load) *contender {
		return &contender{run: func(ctx context.Context) (sample, error) {
			return s.during(ctx, l, turn, processAPI, processRedis, processPostgres)
		}}
	}
	wide, narrow, even := run(many.zipf()), run(few.zipf()), run(usual)
	for _, warm := range []*contender{wide, narrow} {
		if _, err := warm.run(ctx); err != nil {
			return err
		}
	}
	if err := takeTurns(ctx, keysTurns, wide, narrow, even); err != nil {
		return err
	}
	r.judge(verdict{what: fmt.Sprintf("%d keys: Redis' memory per key", s.manyKeys), unit: " bytes", target: keyBytes, measured: each})
	s.reportKeys(r, wide.turns, narrow.turns, even.turns)
	return nil
}

// reportKeys adds the turns' figures, and weighs many keys against each other load.
func (s *stack) reportKeys(r *report, wide, narrow, even series) {
	r.medians(fmt.Sprintf("GET overview with %d keys, Zipf-distributed", s.manyKeys), wide)
	r.medians(fmt.Sprintf("  with %d keys, Zipf-distributed", keyCount), narrow)
	r.medians(fmt.Sprintf("  with %d keys, one after the other", keyCount), even)
	for _, other := range []struct {
		name  string
		turns series
	}{{"", narrow}, {", one after the other", even}} {
		r.judge(verdict{
			what: fmt.Sprintf("%d keys: requests/s / those with %d%s", s.manyKeys, keyCount, other.name), unit: "×", target: 0.85, least: true,
			measured: ratio(wide, other.turns, (*sample).rate),
		})
	}
}

// insertKeys copies keys into PostgreSQL: creating each through the store would take an hour.
func (s *stack) insertKeys(ctx context.Context, count int) (keySet, error) {
	owner, err := keys.NewStore(s.pool, silent{}).EnsureAccount(ctx, account)
	if err != nil {
		return keySet{}, err
	}
	rows, err := s.pool.Query(ctx, "SELECT prefix FROM api_keys")
	if err != nil {
		return keySet{}, err
	}
	there, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return keySet{}, err
	}
	taken := make(map[string]bool, len(there))
	for _, prefix := range there {
		taken[prefix] = true
	}
	set := keySet{host: s.api, text: make([]byte, 0, count*keys.Length)}
	chance := rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	number := chance.Uint32()
	next := func() ([]any, error) {
		if set.count() == count {
			return nil, nil
		}
		var text string
		for taking := true; taking; {
			number += 0x9E3779B1 // odd: all numbers come before one comes again, and neighbours lie far apart
			text = forgeKey(number, [2]uint64{chance.Uint64(), chance.Uint64()})
			taking = taken[text[:keys.PrefixLength]]
		}
		hash, ok := keys.Parse([]byte(text))
		if !ok {
			return nil, errors.New("a key that was made has not the form of one")
		}
		set.text = append(set.text, text...)
		id := uuid.Must(uuid.NewV7())
		return []any{id, owner, id, text[:keys.PrefixLength], hash[:], tier}, nil
	}
	columns := []string{"id", "account_id", "family_id", "prefix", "hash", "tier"}
	if _, err := s.pool.CopyFrom(ctx, pgx.Identifier{"api_keys"}, columns, pgx.CopyFromFunc(next)); err != nil {
		return keySet{}, fmt.Errorf("copy keys: %w", err)
	}
	for _, statement := range []string{"VACUUM (ANALYZE) api_keys", "CHECKPOINT"} { // now, not while something is measured
		if _, err := s.pool.Exec(ctx, statement); err != nil {
			return keySet{}, err
		}
	}
	return set, nil
}

// touch uses each key once, on a pod that is then stopped, and returns what a key takes in Redis.
func (s *stack) touch(ctx context.Context, set keySet) (bytesPerKey float64, err error) {
	before, err := s.redisInfo(ctx, "memory", "used_memory")
	if err != nil {
		return 0, err
	}
	supervisor, err := process.New(s.dir.Path("log"), s.dir.Path("pids"), s.say)
	if err != nil {
		return 0, err
	}
	defer supervisor.Stop()
	const name = "toucher"
	if set.host, err = s.ports.Address(ctx, name); err != nil {
		return 0, err
	}
	if err := s.startUnder(ctx, supervisor, name, "api", "EXAMPREP_LISTEN="+set.host); err != nil {
		return 0, err
	}
	if err := s.touchAll(ctx, set); err != nil {
		return 0, err
	}
	supervisor.Stop()
	if err := s.awaitRollUps(ctx); err != nil {
		return 0, err
	}
	if err := s.rewriteRedis(ctx); err != nil {
		return 0, err
	}
	after, err := s.redisInfo(ctx, "memory", "used_memory")
	return float64(after-before) / float64(set.count()), err
}

// touchAll uses each key until it was let pass. A machine that is busy otherwise may have the pod refuse some at first: so
// many new keys at once are not what it is there for.
func (s *stack) touchAll(ctx context.Context, set keySet) error {
	for range touchPasses {
		var refused atomic.Int64
		all := set.once()
		all.refusal, all.refused = http.StatusServiceUnavailable, &refused
		if _, _, err := all.drive(ctx, time.Hour); err != nil {
			return err
		}
		if refused.Load() == 0 {
			return nil
		}
		s.say("%d requests were answered 503; using each key again", refused.Load())
	}
	return fmt.Errorf("keys were still refused when each was used for the %dth time", touchPasses)
}

// awaitRollUps waits until the use of keys is where it stays, so that none of that is done while something is measured. The
// pod that is measured does it, by itself: nothing else is asked of it now.
func (s *stack) awaitRollUps(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, rollUpTime)
	defer cancel()
	return poll(ctx, "the use of keys is rolled up", func() (bool, error) {
		var waiting bool
		err := s.pool.QueryRow(ctx, "SELECT EXISTS (SELECT FROM key_usage_batches)").Scan(&waiting)
		return !waiting, err
	})
}

// poll asks until something is so.
func poll(ctx context.Context, what string, so func() (bool, error)) error {
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for {
		if is, err := so(); is || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait until %s: %w", what, context.Cause(ctx))
		case <-ticker.C:
		}
	}
}

// rewriteRedis has Redis write its file anew, now and not while something is measured, and waits for that.
func (s *stack) rewriteRedis(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, rewriteTime)
	defer cancel()
	_ = s.redis.BgRewriteAOF(ctx).Err() // it may be doing so already
	return poll(ctx, "Redis has written its file", func() (bool, error) {
		running, err := s.redisInfo(ctx, "persistence", "aof_rewrite_in_progress")
		if err != nil {
			return false, err
		}
		scheduled, err := s.redisInfo(ctx, "persistence", "aof_rewrite_scheduled")
		return running+scheduled == 0, err
	})
}
