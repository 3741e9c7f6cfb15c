package directory

import (
	"context"
	"time"

	"github.com/google/uuid"

	"examprep.dev/server/keys"
	"examprep.dev/server/postgres/keysdb"
)

const (
	tick = time.Second // a lease lasts two; an author waits for three, since it waits two and a half seconds
	// Numbers of the changes: the key is unknown, live, revoked.
	unknown, live, revoked = 10, 20, 30
)

type podPhase int

const (
	down podPhase = iota
	loaded
	registered
	serving // it had a lease
)

type world struct {
	limits limits
	now    Reading
	number int64 // the newest change
	rows   map[int]*keysdb.PodsAppliedRow
	board  int64
	// dead are rows of killed pods that started again.
	pods   [2]*simulatedPod
	author simulatedAuthor
	req    *simulatedRequest

	restarts, losses int
	lost             bool // Redis has lost a number
	exceptions       int
	broken           string
}

// production are the timings of the worlds.
var production = Production()

// limits bound a world. A lease and an author's patience are in ticks of the real constants.
type limits struct {
	restarts, losses int
	running          bool // both pods serve and the key is live at the beginning
	fresh            bool // both pods serve and the key is not created yet
	revoking         bool // with running: the revocation is committed
	prompt           bool // telling Redis is one step. Unless Redis loses its number, a late message changes nothing
	split            bool // a renewal reads before it commits
	silent           bool // with running or fresh: both pods were silent, and are lost
	// mutations of the world, of things that are not in Go code
	rowLoss, staleReplica, oneShard, lastWriter bool
	// mutations of the code, switched on in the simulation around it
	lookupFirst, compareLate, leaseAtRegistration, reregisterNewest, markApplied, shortWait, stopEarly, frozen bool
	serveBeforeLease, restrictionAsAddition, clockOfRows, lostRenews                                           bool
}

type simulatedPod struct {
	phase   podPhase
	d       *Directory
	row     int // index in world.rows
	renewal *simulatedRenewal
	telling *simulatedTell
	frozen  *Reading
}

type simulatedRenewal struct {
	attempt   attempt
	reply     keysdb.RenewLeaseRow
	committed bool
}

type simulatedTell struct {
	of     *contents
	number int64
}

type simulatedAuthor struct {
	stage   int // 0, 1 created, 2 answered, 3 revoked, 4 answered
	confirm *confirmation
	since   Reading
}

type simulatedRequest struct {
	pod                         *simulatedPod
	afterCreation, afterRevoked bool
	stage                       int
	early                       look // of the mutation that looks up first
	found                       look
}

// worldDatabase is PostgreSQL as one pod sees it.
type worldDatabase struct {
	w *world
	p *simulatedPod
}

func hashOfTest() (h keys.Hash) { h[0], h[20] = 1, 2; return h }

func (db worldDatabase) put(c *contents) {
	hash := hashOfTest()
	short := shorten(hash[:])
	if db.w.number != live {
		c.remove(&short)
		return
	}
	c.put(entry{hash: short, key: uuid.UUID{1}, family: uuid.UUID{1}}, "service_00000001", "")
}

func (db worldDatabase) load(context.Context) (*contents, error) {
	c := newContents(1)
	c.number.Store(db.w.number)
	db.put(c)
	return c, nil
}

func (db worldDatabase) RegisterPod(_ context.Context, row keysdb.RegisterPodParams) error {
	if r := db.w.rows[db.p.row]; r != nil {
		r.Applied, r.Told, r.Lost = row.Applied, 0, false
		r.Renewals++
		return nil
	}
	db.w.rows[db.p.row] = &keysdb.PodsAppliedRow{ID: uuid.UUID{byte(db.p.row)}, Applied: row.Applied}
	return nil
}

func (db worldDatabase) RenewLease(_ context.Context, row keysdb.RenewLeaseParams) (keysdb.RenewLeaseRow, error) {
	r := db.w.rows[db.p.row]
	if r == nil {
		return keysdb.RenewLeaseRow{}, nil
	}
	reply := keysdb.RenewLeaseRow{Registered: true, Lost: r.Lost, Pods: 1}
	hash := hashOfTest()
	for _, n := range []int64{live, revoked} {
		if n > row.Applied && n <= db.w.number {
			reply.Numbers, reply.Hashes = append(reply.Numbers, n), append(reply.Hashes, hash[:])
		}
	}
	return reply, nil
}

// commitRenewal updates the row of a renewal that has read already.
func (w *world) commitRenewal(p *simulatedPod) {
	n := p.renewal
	n.committed = true
	r := w.rows[p.row]
	if r == nil || (r.Lost && !w.limits.lostRenews) {
		return
	}
	n.reply.Renewed = true
	r.Applied, r.Told, r.Lost = n.attempt.applied, n.attempt.told, false
	r.Renewals++
}

func (db worldDatabase) read(_ context.Context, into *contents, _ [][]byte) error {
	db.put(into)
	return nil
}

func (worldDatabase) AddEmptyKeyChange(context.Context, int64) (int64, error) {
	panic("PostgreSQL has lost nothing")
}

func newWorld(l limits) *world {
	w := &world{
		limits: l, now: Reading{Wall: time.Unix(1_800_000_000, 0)}, number: unknown, board: unknown, rows: map[int]*keysdb.PodsAppliedRow{},
	}
	for i := range w.pods {
		w.pods[i] = w.newPod(i)
	}
	if l.running || l.fresh {
		if l.running {
			w.number, w.author.stage, w.board = live, 2, live
		}
		for _, p := range w.pods {
			w.load(p)
			w.registerPod(p)
			w.sendRenewal(p)
			if l.split {
				w.commitRenewal(p)
			}
			w.finishRenewal(p)
			w.tell(p)
			w.told(p, w.board)
		}
		if l.silent {
			for range 3 {
				w.pass()
			}
			for _, r := range w.rows {
				r.Lost = true
			}
		}
		if l.revoking {
			w.number, w.author.stage = revoked, 3
		}
	}
	return w
}

func (w *world) newPod(row int) *simulatedPod {
	p := &simulatedPod{row: row}
	p.d = &Directory{cfg: Config{Timings: production, Clock: func() Reading {
		if p.frozen != nil {
			return *p.frozen
		}
		return w.now
	}}}
	p.d.renewed = make(chan struct{}, 1)
	p.d.contents.Store(newContents(1))
	return p
}

func (w *world) load(p *simulatedPod) {
	_ = p.d.load(context.Background(), worldDatabase{w, p})
	p.phase = loaded
}

func (w *world) registerPod(p *simulatedPod) {
	_ = p.d.register(context.Background(), worldDatabase{w, p}, p.d.contents.Load().number.Load())
	p.phase = registered
	if w.limits.leaseAtRegistration || w.limits.serveBeforeLease {
		now := p.d.cfg.Clock()
		if !w.limits.leaseAtRegistration { // the lease is over
			now.Monotonic -= production.Lease
		}
		p.d.lease.Store(&lease{begin: now})
		p.phase = serving
	}
}

func (w *world) sendRenewal(p *simulatedPod) {
	a := p.d.begin()
	reply, _ := worldDatabase{w, p}.RenewLease(context.Background(), keysdb.RenewLeaseParams{Applied: a.applied, Told: a.told})
	p.renewal = &simulatedRenewal{attempt: a, reply: reply}
	if !w.limits.split {
		w.commitRenewal(p)
	}
}

func (w *world) finishRenewal(p *simulatedPod) {
	r := p.renewal
	p.renewal = nil
	// The keys are read when the reply arrives: the present state, which can be newer than the numbers.
	if err := p.d.finish(context.Background(), worldDatabase{w, p}, r.attempt, r.reply); err != nil {
		p.phase = down // it must load and register again; its row, if any, stays
		return
	}
	if p.d.lease.Load() != nil {
		p.phase = serving
	}
}

func (w *world) tell(p *simulatedPod) {
	c := p.d.contents.Load()
	p.telling = &simulatedTell{of: c, number: c.number.Load()}
}

func (w *world) told(p *simulatedPod, stored int64) {
	t := p.telling
	p.telling = nil
	p.d.confirm(t.of, t.number, stored)
	p.d.higher.Store(0) // nothing is lost in this world: PostgreSQL has every number
}

func (w *world) clone() *world {
	c := *w
	c.rows = make(map[int]*keysdb.PodsAppliedRow, len(w.rows))
	for at, r := range w.rows {
		copied := *r
		c.rows[at] = &copied
	}
	for i, p := range w.pods {
		q := c.newPod(p.row)
		q.phase, q.frozen = p.phase, p.frozen
		if p.renewal != nil {
			copied := *p.renewal
			q.renewal = &copied
		}
		before, after := p.d.contents.Load(), q.d.contents.Load()
		after.number.Store(before.number.Load())
		after.told.Store(before.told.Load())
		hash := hashOfTest()
		short := shorten(hash[:])
		if e, ok := before.keys.find(&short); ok {
			after.keys.put(&e)
		}
		q.d.lease.Store(p.d.lease.Load())
		if t := p.telling; t != nil {
			copied := *t
			if t.of == before {
				copied.of = after
			}
			q.telling = &copied
		}
		c.pods[i] = q
		if w.req != nil && w.req.pod == p {
			request := *w.req
			request.pod = q
			c.req = &request
		}
	}
	return &c
}
