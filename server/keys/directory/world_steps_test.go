package directory

import (
	"context"
	"strconv"

	"examprep.dev/server/keys"
	"examprep.dev/server/postgres/keysdb"
)

type step struct {
	where, name string
	do          func()
}

func (w *world) podSteps(i int) []step {
	p := w.pods[i]
	steps := make([]step, 0, 16)
	add := func(name string, do func()) { steps = append(steps, step{[]string{"pod 0 ", "pod 1 "}[i], name, do}) }
	switch p.phase {
	case down:
		add("loads", func() { w.load(p) })
	case loaded:
		add("registers", func() { w.registerPod(p) })
	default:
		if p.renewal == nil {
			add("renews", func() { w.sendRenewal(p) })
			if w.limits.staleReplica && w.number > p.d.contents.Load().number.Load() {
				add("renews from a stale replica", func() {
					number := w.number
					w.number = p.d.contents.Load().number.Load()
					w.sendRenewal(p)
					w.number = number
				})
			}
		} else {
			if p.renewal.committed {
				add("gets the reply", func() { w.finishRenewal(p) })
			} else {
				add("commits its renewal", func() { w.commitRenewal(p) })
			}
			add("loses the reply", func() { p.renewal = nil })
		}
		if w.limits.prompt && p.d.Leased() && p.d.contents.Load().told.Load() < p.d.contents.Load().number.Load() {
			add("tells Redis its number", func() {
				w.tell(p)
				w.board = max(w.board, p.telling.number)
				w.told(p, w.board)
			})
		}
		if !w.limits.prompt && p.telling == nil && p.d.Leased() {
			add("sends its number to Redis", func() { w.tell(p) })
		}
		if r := w.rows[p.row]; w.limits.rowLoss && r != nil {
			add("loses its row", func() { delete(w.rows, p.row) })
		}
		if r := w.rows[p.row]; w.limits.clockOfRows && r != nil && !r.Lost {
			add("looks dead by the clock of PostgreSQL", func() { r.Lost = true })
		}
		if r := w.rows[p.row]; w.limits.reregisterNewest && r != nil && r.Applied < w.number {
			add("registers with the newest number before it loads", func() {
				p.renewal = nil
				_ = worldDatabase{w, p}.RegisterPod(context.Background(), keysdb.RegisterPodParams{Applied: w.number})
			})
		}
	}
	if p.telling != nil {
		add("has Redis' confirmation", func() {
			if w.limits.lastWriter {
				w.board = p.telling.number
			}
			w.board = max(w.board, p.telling.number)
			w.told(p, w.board)
		})
		add("loses the message to Redis", func() { p.telling = nil })
		if w.limits.oneShard {
			add("has another shard's confirmation", func() { w.told(p, p.telling.number) })
		}
	}
	if w.restarts < w.limits.restarts && p.phase != down {
		add("is killed", func() { w.kill(i) })
		if p.phase >= registered && (w.req == nil || w.req.pod != p) {
			add("ends", func() { delete(w.rows, p.row); w.kill(i) })
		}
		if r := w.rows[p.row]; w.limits.stopEarly && r != nil {
			add("deletes its row and still answers", func() { delete(w.rows, p.row); w.restarts++ })
		}
	}
	if w.limits.frozen && i == 0 && p.frozen == nil {
		add("has both clocks stopped", func() { now := w.now; p.frozen = &now })
	}
	return steps
}

func (w *world) kill(i int) {
	old := w.pods[i]
	w.restarts++
	if w.req != nil && w.req.pod == old {
		w.req = nil
	}
	w.pods[i] = w.newPod(old.row + 10)
	if old.telling != nil {
		w.pods[i].telling = &simulatedTell{of: old.telling.of, number: old.telling.number}
	}
}

func (w *world) authorSteps() []step {
	a := &w.author
	switch {
	case a.stage == 0 || a.stage == 2:
		return []step{{"", "the author commits", func() { w.number += 10; a.stage++; a.confirm = nil }}}
	case a.stage == 4:
		return nil
	case a.confirm == nil:
		return []step{{"", "the author looks", func() {
			kind := keys.Restriction
			if a.stage == 1 || w.limits.restrictionAsAddition {
				kind = keys.Addition
			}
			a.confirm, a.since = newConfirmation(kind, production.Wait, w.number, w.podRows()), w.now
		}}}
	}
	waited := w.now.Monotonic - a.since.Monotonic
	if w.limits.shortWait {
		waited += 2 * tick
	}
	v := a.confirm.judge(w.podRows(), waited)
	silent := v.silent.Ids
	var steps []step
	if v.done {
		steps = append(steps, step{"", "the author answers", func() { a.stage++ }})
	}
	if w.limits.markApplied && waited >= production.Wait {
		silent = nil
		for _, p := range w.podRows() {
			if !p.Lost && p.Applied < w.number {
				silent = append(silent, p.ID)
			}
		}
	}
	for _, id := range silent {
		steps = append(steps, step{"", "the author marks a row lost", func() { w.rows[int(id[0])].Lost = true }})
	}
	return steps
}

func (w *world) podRows() []keysdb.PodsAppliedRow {
	var rows []keysdb.PodsAppliedRow
	for at := range 30 {
		if r := w.rows[at]; r != nil {
			rows = append(rows, *r)
		}
	}
	return rows
}

func (w *world) requestSteps() []step {
	if w.req == nil {
		var steps []step
		for i, p := range w.pods {
			if p.d.lease.Load() != nil && w.author.stage >= 2 { // without one it returns 503
				steps = append(steps, step{[]string{"pod 0 ", "pod 1 "}[i], "gets a request", func() {
					w.req = &simulatedRequest{pod: p, afterCreation: true, afterRevoked: w.author.stage == 4}
				}})
			}
		}
		return steps
	}
	r := w.req
	switch {
	case r.stage == 0 && w.limits.lookupFirst:
		return []step{{"", "the request looks up before it checks the lease", func() {
			hash := hashOfTest()
			short := shorten(hash[:])
			_, ok := r.pod.d.contents.Load().find(&short, w.now.Wall)
			r.early = look{status: Unknown}
			if ok {
				r.early.status = Live
			}
			r.stage = 1
		}}}
	case r.stage <= 1:
		return []step{{"", "the request looks", func() {
			r.found = r.pod.d.look(hashOfTest())
			if w.limits.lookupFirst && !r.found.blind && r.found.status != Unavailable {
				r.found = r.early
			}
			if !r.found.blind {
				w.answer(r.found.status, false)
				return
			}
			r.stage = 2
		}}}
	default:
		return []step{{"", "the request compares with Redis", func() {
			if w.limits.compareLate {
				r.found.number = r.pod.d.contents.Load().number.Load()
			}
			_, status := r.found.compare(w.board)
			w.answer(status, true)
		}}}
	}
}

func (w *world) answer(s Status, blind bool) {
	r := w.req
	w.req = nil
	switch {
	case s == Live && r.afterRevoked && blind && w.lost:
		w.exceptions++
	case s == Live && r.afterRevoked:
		w.broken = "accepted after the revocation was answered"
	case s == Unknown && !r.afterRevoked && w.author.stage == 2:
		w.broken = "refused as unknown after the creation was answered"
	}
}

func (w *world) pass() {
	w.now = Reading{Monotonic: w.now.Monotonic + tick, Wall: w.now.Wall.Add(tick)}
}

func (w *world) steps() []step {
	steps := append(w.podSteps(0), w.podSteps(1)...)
	steps = append(steps, w.authorSteps()...)
	steps = append(steps, w.requestSteps()...)
	steps = append(steps, step{"", "a second passes", w.pass})
	if w.losses < w.limits.losses {
		for _, n := range []int64{0, unknown, live} {
			if n < w.board {
				steps = append(steps, step{"Redis falls back to ", strconv.FormatInt(n, 10), func() { w.board, w.lost = n, true; w.losses++ }})
			}
		}
	}
	return steps
}

// fingerprint is equal for worlds with the same future.
func (w *world) fingerprint() string {
	b := make([]byte, 0, 128)
	add := func(numbers ...int64) {
		for _, n := range numbers {
			b = append(b, byte(n))
		}
	}
	flag := func(yes bool) int64 {
		if yes {
			return 1
		}
		return 0
	}
	var parts [2]string
	for i, p := range w.pods {
		now := p.d.cfg.Clock().Monotonic
		c := p.d.contents.Load()
		left := int64(-1)
		if l := p.d.lease.Load(); l != nil {
			left = int64(max(l.begin.Monotonic+production.Lease-now, 0) / tick)
		}
		add(int64(p.phase), c.number.Load(), int64(c.keys.shards[0].count), left, c.told.Load(), flag(p.frozen != nil))
		if r := p.renewal; r != nil {
			add('r', flag(r.reply.Registered), flag(r.reply.Renewed), flag(r.reply.Lost), flag(r.committed), int64(len(r.reply.Numbers)), r.attempt.applied, int64(max(r.attempt.begin.Monotonic+production.Lease-now, 0)/tick))
		}
		if p.telling != nil {
			add('t', p.telling.number, flag(p.telling.of == c))
		}
		for at := i; at <= p.row; at += 10 { // of the pod and of those that were killed in its place
			if r := w.rows[at]; r != nil {
				add('w', flag(at == p.row), r.Applied, r.Told, flag(r.Lost))
				if a := w.author.confirm; a != nil {
					seen, ok := a.first[r.ID]
					add(flag(ok && seen == r.Renewals))
				}
			}
		}
		if r := w.req; r != nil && r.pod == p {
			add('q', flag(r.afterRevoked), int64(r.stage), int64(r.early.status), flag(r.found.blind), r.found.number)
		}
		parts[i] = string(b)
		b = b[:0]
	}
	if parts[0] > parts[1] { // pods can change places
		parts[0], parts[1] = parts[1], parts[0]
	}
	b = append(b, parts[0]+"|"+parts[1]...)
	add('a', w.number, w.board, int64(w.author.stage), flag(w.author.confirm != nil), int64(w.restarts), int64(w.losses), flag(w.lost))
	if w.author.confirm != nil {
		add(int64(min(w.now.Monotonic-w.author.since.Monotonic, 3*tick) / tick))
	}
	return string(b)
}
