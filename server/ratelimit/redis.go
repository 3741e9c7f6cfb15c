package ratelimit

import (
	"context"
	_ "embed"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
)

//go:embed take.lua
var takeText string

//go:embed purge.lua
var purgeText string

const (
	// clusterHashes is the number of hashes on a Cluster: a slot each, so that masters share the buckets evenly.
	clusterHashes = 256
	// replySize is the part of take.lua's reply about one bucket, in bytes.
	replySize = 10
	// connRest is the maximum pause between two calls on a kept connection. After a longer one the pool checks the
	// connection first.
	connRest = 20 * time.Millisecond
)

// ReplyError reports that a script returned something else than it ever does: another program uses its name.
type ReplyError struct{ Script, Detail string }

func (e *ReplyError) Error() string {
	return fmt.Sprintf("the reply of %s is malformed: %s", e.Script, e.Detail)
}

// store is the Redis with the buckets.
type store struct {
	rdb    redis.UniversalClient
	single *redis.Client // nil on a Cluster
	hashes []string
	take   *redis.Script
	purge  *redis.Script
	now    func() time.Time
}

func newStore(prefix string, rdb redis.UniversalClient, now func() time.Time) *store {
	s := &store{
		rdb: rdb, hashes: []string{prefix + "buckets"}, now: now,
		take: redis.NewScript(takeText), purge: redis.NewScript(purgeText),
	}
	if single, ok := rdb.(*redis.Client); ok {
		s.single = single
		return s
	}
	s.hashes = make([]string, clusterHashes)
	for i := range s.hashes {
		s.hashes[i] = fmt.Sprintf("%sbuckets:{%02x}", prefix, i)
	}
	return s
}

// hashOf returns the index of a bucket's hash.
func (s *store) hashOf(id ID) int { return int(id[0]) % len(s.hashes) }

// slot is the memory and the connection of one batch at a time.
type slot struct {
	conn *redis.Conn
	used time.Time

	failed int // the hash whose call failed last
	items  []item
	marks  []uint64 // of the items' ids
	rates  []Rate
	at     []int // the item of each call
	buffer []byte
	groups []group
}

// item is a bucket in a batch.
type item struct {
	id      ID
	rate    Rate
	asked   int
	granted int
	served  int
	missing float64
}

// group is the calls, and their items, whose buckets are in one hash.
type group struct {
	hash                  int
	calls, afterCalls     int // the range of calls
	items, afterItems     int
	fields, counts, rates []byte
	cmd                   *redis.Cmd
}

// take asks Redis for a token for each call. On a Cluster, calls whose hash is reachable are answered even if it returns an
// error.
func (s *slot) take(ctx context.Context, r *store, calls []*call) error {
	if len(r.hashes) > 1 {
		slices.SortStableFunc(calls, func(a, b *call) int { return r.hashOf(a.Request.id) - r.hashOf(b.Request.id) })
	}
	s.items, s.marks, s.at, s.groups, s.buffer = s.items[:0], s.marks[:0], s.at[:0], s.groups[:0], s.buffer[:0]
	for begin := 0; begin < len(calls); {
		hash, end := r.hashOf(calls[begin].Request.id), begin+1
		for end < len(calls) && r.hashOf(calls[end].Request.id) == hash {
			end++
		}
		g := group{hash: hash, calls: begin, afterCalls: end, items: len(s.items)}
		s.coalesce(&g, calls[begin:end])
		s.encode(&g)
		s.groups = append(s.groups, g)
		begin = end
	}
	s.send(ctx, r, r.take.EvalSha)
	if slices.ContainsFunc(s.groups, noScript) {
		s.send(ctx, r, r.take.Eval) // the other calls did not run
	}
	var failure error
	for i := range s.groups {
		g := &s.groups[i]
		if err := s.decode(g); err != nil {
			s.failed, failure = g.hash, err
			continue
		}
		s.answer(g, calls)
	}
	return failure
}

// coalesce makes one item of all calls for a bucket.
func (s *slot) coalesce(g *group, calls []*call) {
	for _, c := range calls {
		id := c.Request.id
		mark := binary.NativeEndian.Uint64(id[:])
		at := len(s.items)
		for i := g.items; i < len(s.marks); i++ {
			if s.marks[i] == mark && s.items[i].id == id {
				at = i
				break
			}
		}
		if at == len(s.items) {
			s.marks = append(s.marks, mark)
			s.items = append(s.items, item{id: id, rate: c.Request.rate})
		}
		s.items[at].asked++
		s.at = append(s.at, at)
	}
	g.afterItems = len(s.items)
}

// encode writes the arguments of take.lua to the buffer.
func (s *slot) encode(g *group) {
	const shortString = 0xa0 // of MessagePack, plus the length
	items := s.items[g.items:g.afterItems]
	part := func(write func()) []byte {
		begin := len(s.buffer)
		write()
		return s.buffer[begin:len(s.buffer):len(s.buffer)]
	}
	g.fields = part(func() {
		for i := range items {
			s.buffer = append(append(s.buffer, shortString|byte(len(ID{}))), items[i].id[:]...)
		}
	})
	s.rates = s.rates[:0]
	g.counts = part(func() {
		for i := range items {
			rate := slices.Index(s.rates, items[i].rate)
			if rate < 0 {
				rate = len(s.rates)
				s.rates = append(s.rates, items[i].rate)
			}
			s.buffer = append(binary.BigEndian.AppendUint16(s.buffer, uint16(items[i].asked)), byte(rate))
		}
	})
	g.rates = part(func() {
		for _, r := range s.rates {
			s.buffer = binary.LittleEndian.AppendUint64(s.buffer, math.Float64bits(float64(r.period)))
			s.buffer = binary.LittleEndian.AppendUint32(s.buffer, r.requests)
			s.buffer = binary.LittleEndian.AppendUint32(s.buffer, r.burst)
		}
	})
}

// script is the method of redis.Script that calls one: EvalSha or Eval.
type script func(ctx context.Context, c redis.Scripter, names []string, args ...any) *redis.Cmd

// send calls take.lua for each group that has no reply yet.
func (s *slot) send(ctx context.Context, r *store, how script) {
	arguments := func(g *group) ([]string, []any) {
		return r.hashes[g.hash : g.hash+1], []any{g.fields, g.counts, g.rates}
	}
	if r.single != nil {
		g := &s.groups[0]
		names, args := arguments(g)
		g.cmd = how(ctx, s.connection(r), names, args...)
		if g.cmd.Err() != nil && !noScript(*g) {
			s.closeConn() // the pool keeps or discards it
		}
		s.used = r.now()
		return
	}
	pipe := r.rdb.Pipeline()
	for i := range s.groups {
		if g := &s.groups[i]; g.cmd == nil || noScript(*g) {
			names, args := arguments(g)
			g.cmd = how(ctx, pipe, names, args...)
		}
	}
	_, _ = pipe.Exec(ctx) // each command has its own error
}

// noScript reports whether Redis does not have the script, and so did not run it.
func noScript(g group) bool { return redis.HasErrorPrefix(g.cmd.Err(), "NOSCRIPT") }

// connection returns the slot's connection. Keeping one from batch to batch saves a system call for each.
func (s *slot) connection(r *store) *redis.Conn {
	if s.conn != nil && r.now().Sub(s.used) > connRest {
		s.closeConn()
	}
	if s.conn == nil {
		s.conn = r.single.Conn()
	}
	return s.conn
}

func (s *slot) closeConn() {
	if s.conn != nil {
		_ = s.conn.Close()
		s.conn = nil
	}
}

// decode reads the reply of take.lua.
func (s *slot) decode(g *group) error {
	reply, err := g.cmd.Text()
	if err != nil {
		return fmt.Errorf("take tokens: %w", err)
	}
	items := s.items[g.items:g.afterItems]
	if len(reply) != replySize*len(items) {
		return &ReplyError{Script: "take.lua", Detail: fmt.Sprintf("%d bytes for %d buckets", len(reply), len(items))}
	}
	for i := range items {
		part := []byte(reply[i*replySize : (i+1)*replySize])
		items[i].granted = int(binary.LittleEndian.Uint16(part))
		items[i].missing = math.Float64frombits(binary.LittleEndian.Uint64(part[2:]))
	}
	return nil
}

// answer gives the granted tokens to the calls in their order.
func (s *slot) answer(g *group, calls []*call) {
	for i := g.calls; i < g.afterCalls; i++ {
		it := &s.items[s.at[i]]
		allowed, missing := it.served < it.granted, it.missing
		if allowed {
			it.served++
			missing -= float64(it.granted-it.served) * float64(it.rate.period) // of the calls that follow
		}
		calls[i].Answer(it.rate.result(allowed, missing), nil)
	}
}
