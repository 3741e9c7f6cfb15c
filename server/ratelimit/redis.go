package ratelimit

import (
	"cmp"
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
	// connRest is the maximum pause of a kept connection. After a longer one the pool checks it first.
	connRest = 20 * time.Millisecond
)

// ReplyError reports that a script returned something else than it ever does: another program uses its name.
type ReplyError struct{ Script, Detail string }

func (e *ReplyError) Error() string { return "malformed reply of " + e.Script + ": " + e.Detail }

// store is the Redis with the buckets.
type store struct {
	rdb    redis.UniversalClient
	single *redis.Client // nil on a Cluster
	hashes []string
	now    func() time.Time

	takeScript, purgeScript *redis.Script
}

func newStore(prefix string, rdb redis.UniversalClient, now func() time.Time) *store {
	s := &store{rdb: rdb, now: now, takeScript: redis.NewScript(takeText), purgeScript: redis.NewScript(purgeText)}
	if single, ok := rdb.(*redis.Client); ok {
		s.single, s.hashes = single, []string{prefix + "buckets"}
		return s
	}
	for i := range clusterHashes {
		s.hashes = append(s.hashes, fmt.Sprintf("%sbuckets:{%02x}", prefix, i))
	}
	return s
}

// slot is the connection and the memory of one batch at a time.
type slot struct {
	*store

	conn   *redis.Conn // kept from batch to batch: that saves a system call for each
	used   time.Time   // when conn was used last
	groups []group     // one for each hash
}

func newSlot(s *store) *slot { return &slot{store: s, groups: make([]group, len(s.hashes))} }

// take asks Redis for a token for each call, and returns the number of buckets. On a Cluster, calls whose hash is reachable
// are answered even if it returns an error.
func (s *slot) take(ctx context.Context, calls []*call) (buckets int, err error) {
	for i := range s.groups {
		s.groups[i].reset()
	}
	for _, c := range calls {
		s.groups[int(c.Request.id[0])%len(s.groups)].add(c)
	}
	for i := range s.groups {
		s.groups[i].encode()
	}
	s.send(ctx)
	for i := range s.groups {
		g := &s.groups[i]
		buckets += len(g.items)
		if g.cmd != nil {
			err = cmp.Or(g.answer(), err)
		}
	}
	return buckets, err
}

// send calls take.lua for each group. A server that does not have the script runs nothing, and gets its text.
func (s *slot) send(ctx context.Context) {
	if s.single != nil {
		g := &s.groups[0]
		if s.now().Sub(s.used) > connRest {
			s.closeConn()
		}
		if s.conn == nil {
			s.conn = s.single.Conn()
		}
		g.cmd = s.takeScript.Run(ctx, s.conn, s.hashes, g.fields, g.counts, g.limits)
		if g.cmd.Err() != nil {
			s.closeConn() // the pool keeps or discards it
		}
		s.used = s.now()
		return
	}
	for _, how := range []func(context.Context, redis.Scripter, []string, ...any) *redis.Cmd{
		s.takeScript.EvalSha, s.takeScript.Eval,
	} {
		pipe := s.rdb.Pipeline()
		for i := range s.groups {
			g := &s.groups[i]
			if len(g.calls) > 0 && (g.cmd == nil || redis.HasErrorPrefix(g.cmd.Err(), "NOSCRIPT")) {
				g.cmd = how(ctx, pipe, s.hashes[i:i+1], g.fields, g.counts, g.limits)
			}
		}
		_, _ = pipe.Exec(ctx) // each command has its own error
	}
}

func (s *slot) closeConn() {
	if s.conn != nil {
		_ = s.conn.Close()
		s.conn = nil
	}
}

// group is the calls of a batch whose buckets are in one hash, and their call of take.lua. Its memory is used again.
type group struct {
	calls []*call
	at    []int // the item of each call
	items []item
	ids   []ID   // of the items, side by side: add reads all of them
	rates []Rate // of the items, each once

	fields, counts, limits []byte // the arguments
	cmd                    *redis.Cmd
}

// item is a bucket in a batch.
type item struct {
	rate                   Rate
	asked, granted, served int // tokens
	missing                float64
}

// add makes one item of all calls for a bucket.
func (g *group) add(c *call) {
	at := 0
	for at < len(g.ids) && g.ids[at] != c.Request.id {
		at++
	}
	if at == len(g.ids) {
		g.ids = append(g.ids, c.Request.id)
		g.items = append(g.items, item{rate: c.Request.rate})
	}
	if !c.Request.peek {
		g.items[at].asked++
	}
	g.calls, g.at = append(g.calls, c), append(g.at, at)
}

// encode writes the arguments of take.lua.
func (g *group) encode() {
	const shortString = 0xa0 // of MessagePack, plus the length
	for i := range g.items {
		r := g.items[i].rate
		at := slices.Index(g.rates, r)
		if at < 0 {
			at = len(g.rates)
			g.rates = append(g.rates, r)
			g.limits = binary.LittleEndian.AppendUint64(g.limits, math.Float64bits(float64(r.period)))
			g.limits = binary.LittleEndian.AppendUint32(g.limits, r.requests)
			g.limits = binary.LittleEndian.AppendUint32(g.limits, r.burst)
		}
		g.fields = append(append(g.fields, shortString|byte(len(ID{}))), g.ids[i][:]...)
		g.counts = append(binary.BigEndian.AppendUint16(g.counts, uint16(g.items[i].asked)), byte(at))
	}
}

// answer reads the reply of take.lua, and gives the granted tokens to the calls in their order.
func (g *group) answer() error {
	reply, err := g.cmd.Text()
	if err != nil {
		return fmt.Errorf("take tokens: %w", err)
	}
	if len(reply) != replySize*len(g.items) {
		return &ReplyError{Script: "take.lua", Detail: fmt.Sprintf("%d bytes for %d buckets", len(reply), len(g.items))}
	}
	for i := range g.items {
		part := []byte(reply[i*replySize : (i+1)*replySize])
		g.items[i].granted = int(binary.LittleEndian.Uint16(part))
		g.items[i].missing = math.Float64frombits(binary.LittleEndian.Uint64(part[2:]))
	}
	for i, c := range g.calls {
		it := &g.items[g.at[i]]
		allowed, missing := !c.Request.peek && it.served < it.granted, it.missing
		if allowed {
			it.served++
			missing -= float64(it.granted-it.served) * float64(it.rate.period) // of the calls that follow
		}
		c.Answer(it.rate.result(allowed, missing), nil)
	}
	return nil
}

func (g *group) reset() {
	g.calls, g.at, g.items, g.ids, g.rates = g.calls[:0], g.at[:0], g.items[:0], g.ids[:0], g.rates[:0]
	g.fields, g.counts, g.limits, g.cmd = g.fields[:0], g.counts[:0], g.limits[:0], nil
}
