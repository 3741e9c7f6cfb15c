package directory

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"examprep.dev/server/keys"
	"examprep.dev/server/testkit/race"
)

// The enumeration plays the protocol with the real code of pods and authors, in every order that a small world allows. It has
// two pods, one author that creates a key and revokes it, one request at a time, PostgreSQL, Redis. Statements are Go
// functions here; the tests of queries compare them with PostgreSQL. A message can be delayed, lost, or outlive its pod. Time
// passes in ticks. A pod can be killed, end properly and start again. Redis can lose its number.
//
// A step is a real step of the code: begin and the statement of a renewal, finish of a renewal, load, register, tell,
// judge, look, compare.

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

// world is PostgreSQL, Redis and all processes.
type world struct {
	limits limits
	now    Reading
	number int64 // the newest change
	rows   map[int]*pod
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

// limits bound a world. A lease and an author's patience are in ticks of the real constants.
type limits struct {
	restarts, losses int
	running          bool // both pods serve and the key is live at the beginning
	fresh            bool // both pods serve and the key is not created yet
	revoking         bool // with running: the revocation is committed
	prompt           bool // telling Redis is one step. Unless Redis loses its number, a late message changes nothing
	// mutations of the world, of things that are not in Go code
	rowLoss, staleReplica, oneShard, lastWriter bool
	// mutations of the code, switched on in the simulation around it
	lookupFirst, compareLate, leaseAtRegistration, reregisterNewest, markApplied, shortWait, stopEarly, frozen bool
	serveBeforeLease, restrictionAsAddition, clockOfRows                                                       bool
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
	attempt attempt
	reply   renewal
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
	short := keyHash(hash[:16])
	if db.w.number == live {
		if _, err := c.put(row{hash: hash[:], key: uuid.UUID{1}, family: uuid.UUID{1}, prefix: []byte("service_00000001")}); err != nil {
			panic(err)
		}
		return
	}
	c.remove(&short)
}

func (db worldDatabase) load(context.Context) (*contents, error) {
	c := newContentsOf(1)
	c.number.Store(db.w.number)
	db.put(c)
	return c, nil
}

func (db worldDatabase) register(_ context.Context, applied int64) error {
	if r := db.w.rows[db.p.row]; r != nil {
		r.applied, r.told, r.lost = applied, 0, false
		r.renewals++
		return nil
	}
	db.w.rows[db.p.row] = &pod{id: uuid.UUID{byte(db.p.row)}, applied: applied}
	return nil
}

// renew is the statement RenewLease.
func (db worldDatabase) renew(_ context.Context, applied, told int64) (renewal, error) {
	r := db.w.rows[db.p.row]
	if r == nil {
		return renewal{}, nil
	}
	r.applied, r.told, r.lost = applied, told, false
	r.renewals++
	reply := renewal{renewed: true, registered: true, pods: 1}
	hash := hashOfTest()
	for _, n := range []int64{live, revoked} {
		if n > applied && n <= db.w.number {
			reply.numbers, reply.hashes = append(reply.numbers, n), append(reply.hashes, hash[:])
		}
	}
	return reply, nil
}

func (db worldDatabase) read(_ context.Context, into *contents, _ [][]byte, _ bool) error {
	db.put(into)
	return nil
}

func (worldDatabase) addEmpty(context.Context, int64) error { panic("PostgreSQL has lost nothing") }
func (worldDatabase) prune(context.Context) error           { return nil }

func newWorld(l limits) *world {
	w := &world{limits: l, now: Reading{Wall: time.Unix(1_800_000_000, 0)}, number: unknown, board: unknown, rows: map[int]*pod{}}
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
			w.finishRenewal(p)
			w.tell(p)
			w.told(p, w.board)
		}
		if l.revoking {
			w.number, w.author.stage = revoked, 3
		}
	}
	return w
}

func (w *world) newPod(row int) *simulatedPod {
	p := &simulatedPod{row: row}
	p.d = &Directory{cfg: Config{Clock: func() Reading {
		if p.frozen != nil {
			return *p.frozen
		}
		return w.now
	}}}
	p.d.teller.wake = make(chan struct{}, 1)
	p.d.contents.Store(newContentsOf(1))
	return p
}

func (w *world) load(p *simulatedPod) {
	_ = p.d.load(context.Background(), worldDatabase{w, p})
	p.phase = loaded
}

func (w *world) registerPod(p *simulatedPod) {
	_ = p.d.register(context.Background(), worldDatabase{w, p})
	p.phase = registered
	if w.limits.leaseAtRegistration || w.limits.serveBeforeLease {
		now := p.d.cfg.Clock()
		p.d.lease.Store(&lease{begin: now, until: now.Monotonic, wall: now.Wall})
		if w.limits.leaseAtRegistration {
			p.d.lease.Store(&lease{begin: now, until: now.Monotonic + leaseTime, wall: now.Wall.Add(leaseTime)})
		}
		p.phase = serving
	}
}

func (w *world) sendRenewal(p *simulatedPod) {
	a := p.d.begin()
	reply, _ := worldDatabase{w, p}.renew(context.Background(), a.applied, a.told)
	p.renewal = &simulatedRenewal{attempt: a, reply: reply}
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
	p.d.teller.confirm(t.of, t.number, stored)
	p.d.teller.higher.Store(0) // nothing is lost in this world: PostgreSQL has every number
}

// clone returns a copy with the same future.
func (w *world) clone() *world {
	c := *w
	c.rows = make(map[int]*pod, len(w.rows))
	for at, r := range w.rows {
		copied := *r
		c.rows[at] = &copied
	}
	for i, p := range w.pods {
		q := c.newPod(p.row)
		q.phase, q.renewal, q.frozen = p.phase, p.renewal, p.frozen
		before, after := p.d.contents.Load(), q.d.contents.Load()
		after.number.Store(before.number.Load())
		for _, e := range before.keys.shards[0].entries {
			after.keys.put(e, e.key)
		}
		renamed := func(of *contents) *contents {
			if of == before {
				return after
			}
			return of
		}
		q.d.lease.Store(p.d.lease.Load())
		q.d.teller.number, q.d.teller.of = p.d.teller.number, renamed(p.d.teller.of)
		if t := p.telling; t != nil {
			q.telling = &simulatedTell{of: renamed(t.of), number: t.number}
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

type step struct {
	where, name string
	do          func()
}

// podSteps returns what can happen to a pod now.
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
			add("gets the reply", func() { w.finishRenewal(p) })
			add("loses the reply", func() { p.renewal = nil })
		}
		if w.limits.prompt && p.d.Leased() && p.d.teller.told(p.d.contents.Load()) < p.d.contents.Load().number.Load() {
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
		if r := w.rows[p.row]; w.limits.clockOfRows && r != nil && !r.lost {
			add("looks dead by the clock of PostgreSQL", func() { r.lost = true })
		}
		if r := w.rows[p.row]; w.limits.reregisterNewest && r != nil && r.applied < w.number {
			add("registers with the newest number before it loads", func() {
				p.renewal = nil
				_ = worldDatabase{w, p}.register(context.Background(), w.number)
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

// kill starts a new process in the pod's place. Its row and its message to Redis stay.
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
			kind := Restriction
			if a.stage == 1 || w.limits.restrictionAsAddition {
				kind = Addition
			}
			a.confirm, a.since = newConfirmation(kind, w.number, w.podRows()), w.now
		}}}
	}
	waited := w.now.Monotonic - a.since.Monotonic
	if w.limits.shortWait {
		waited += 2 * tick
	}
	done, silent := a.confirm.judge(w.podRows(), waited)
	var steps []step
	if done {
		steps = append(steps, step{"", "the author answers", func() { a.stage++ }})
	}
	if w.limits.markApplied && waited >= leaseWait {
		silent = slices.DeleteFunc(w.podRows(), func(p pod) bool { return p.lost || p.applied >= w.number })
	}
	for _, s := range silent {
		steps = append(steps, step{"", "the author marks a row lost", func() { w.rows[int(s.id[0])].lost = true }})
	}
	return steps
}

func (w *world) podRows() []pod {
	var rows []pod
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
			short := keyHash(hash[:16])
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

// answer ends the request and checks the two promises.
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

func (w *world) steps() []step {
	steps := append(w.podSteps(0), w.podSteps(1)...)
	steps = append(steps, w.authorSteps()...)
	steps = append(steps, w.requestSteps()...)
	steps = append(steps, step{"", "a second passes", func() {
		w.now = Reading{Monotonic: w.now.Monotonic + tick, Wall: w.now.Wall.Add(tick)}
	}})
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
			left = int64(max(l.until-now, 0) / tick)
		}
		add(int64(p.phase), c.number.Load(), int64(len(c.keys.shards[0].entries)), left, p.d.teller.told(c), flag(p.frozen != nil))
		if r := p.renewal; r != nil {
			add('r', flag(r.reply.registered), int64(len(r.reply.numbers)), r.attempt.applied, int64(max(r.attempt.begin.Monotonic+leaseTime-now, 0)/tick))
		}
		if p.telling != nil {
			add('t', p.telling.number, flag(p.telling.of == c))
		}
		for at := i; at <= p.row; at += 10 { // of the pod and of those that were killed in its place
			if r := w.rows[at]; r != nil {
				add('w', flag(at == p.row), r.applied, r.told, flag(r.lost))
				if a := w.author.confirm; a != nil {
					seen, ok := a.first[r.id]
					add(flag(ok && seen == r.renewals))
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

// result is what an enumeration has seen.
type result struct {
	worlds, exceptions int
	complete           bool
	broken             string
	trace              []string
}

// enumerate plays every world within the limits, breadth first, up to a number of worlds or the first broken promise.
func enumerate(l limits, most int) result {
	type node struct {
		parent      int
		where, step string
	}
	var out result
	first := newWorld(l)
	seen, nodes := map[string]bool{first.fingerprint(): true}, []node{{-1, "", ""}}
	type place struct {
		w    *world
		node int
	}
	frontier := []place{{first, 0}}
	for len(frontier) > 0 && len(seen) < most {
		var next []place
		for _, at := range frontier {
			for choice := range at.w.steps() {
				w := at.w.clone()
				s := w.steps()[choice]
				s.do()
				out.exceptions += w.exceptions - at.w.exceptions
				if w.broken != "" {
					out.broken, out.worlds, out.trace = w.broken, len(seen), []string{s.where + s.name}
					for n := at.node; n > 0; n = nodes[n].parent {
						out.trace = append(out.trace, nodes[n].where+nodes[n].step)
					}
					slices.Reverse(out.trace)
					return out
				}
				if mark := w.fingerprint(); !seen[mark] {
					seen[mark] = true
					nodes = append(nodes, node{at.node, s.where, s.name})
					next = append(next, place{w, len(nodes) - 1})
				}
			}
		}
		frontier = next
	}
	out.worlds, out.complete = len(seen), len(frontier) == 0
	return out
}

// wholeVariable is set by make soak, which plays all worlds.
const wholeVariable = "DIRECTORY_TEST_WHOLE"

func TestNoInterleavingBreaksAPromise(t *testing.T) {
	worlds := 20_000
	switch {
	case os.Getenv(wholeVariable) != "":
		worlds = 100_000
	case race.Enabled || testing.Short():
		worlds = 2_000
	}
	for name, l := range map[string]limits{
		"both pods run":                              {running: true, prompt: true},
		"both pods run, one restart":                 {running: true, prompt: true, restarts: 1},
		"the key is revoked, Redis loses its number": {running: true, revoking: true, prompt: true, losses: 1},
		"from an empty installation":                 {prompt: true},
		"both pods run, the key is new":              {fresh: true, prompt: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := enumerate(l, worlds)
			if got.broken != "" {
				t.Fatalf("%s:\n%s", got.broken, strings.Join(got.trace, "\n"))
			}
			t.Logf("%d worlds, all: %v, %d steps need the stated exception", got.worlds, got.complete, got.exceptions)
		})
	}
}

// play does the named steps. A step that cannot happen is left out.
func (w *world) play(names ...string) {
	for _, name := range names {
		for _, s := range w.steps() {
			if s.where+s.name == name {
				s.do()
				break
			}
		}
	}
}

// TestExceptionNeedsALossOfRedis shows the exception of the package comment, and that there is none without the loss.
func TestExceptionNeedsALossOfRedis(t *testing.T) {
	for _, loss := range []bool{true, false} {
		w := newWorld(limits{running: true, revoking: true, prompt: true, losses: 1})
		w.play("pod 1 renews", "pod 1 gets the reply", "pod 1 tells Redis its number", "pod 1 renews", "the author looks",
			"a second passes", "a second passes", "a second passes", "the author answers")
		if w.author.stage != 4 {
			t.Fatal("the revocation is not answered")
		}
		if loss {
			w.play("Redis falls back to 20")
		}
		w.play("pod 0 gets a request", "the request looks", "the request compares with Redis")
		if w.broken != "" || (w.exceptions == 1) != loss {
			t.Errorf("Redis has lost its number: %v; %d requests accepted, %q", loss, w.exceptions, w.broken)
		}
	}
}

// TestNumberToldBeforeALoadDoesNotCount: PostgreSQL may have lost the change that Redis confirmed.
func TestNumberToldBeforeALoadDoesNotCount(t *testing.T) {
	w := newWorld(limits{running: true})
	p := w.pods[0]
	if told := p.d.begin().told; told != live {
		t.Fatalf("told %d, want %d", told, live)
	}
	before := p.d.contents.Load()
	w.load(p)
	if told := p.d.begin().told; told != 0 {
		t.Errorf("after a load: told %d, want 0", told)
	}
	p.d.teller.confirm(before, live, live) // its message was under way
	if told := p.d.begin().told; told != 0 {
		t.Errorf("after a late confirmation: told %d, want 0", told)
	}
}

// TestPodWithoutARowServesNothing: authors do not wait for it, so its lease ends at once, and Redis does not count either.
func TestPodWithoutARowServesNothing(t *testing.T) {
	w := newWorld(limits{running: true})
	p := w.pods[0]
	delete(w.rows, p.row)
	w.sendRenewal(p)
	w.finishRenewal(p)
	if found := p.d.look(hashOfTest()); found.status != Unavailable || found.blind || p.phase != down {
		t.Errorf("got %+v in phase %d, want Unavailable until it has loaded and registered again", found, p.phase)
	}
}

// TestTracesOfMistakes plays traces, most of them found by TestEnumerationFindsEachMistake, by the code without the
// mistake. They are in testdata/traces, with the world that they begin in: a mistake in the code is found at once.
func TestTracesOfMistakes(t *testing.T) {
	files, err := filepath.Glob("testdata/traces/*.txt")
	if err != nil || len(files) < 12 {
		t.Fatalf("%d traces, %v", len(files), err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		begin, steps, _ := strings.Cut(strings.TrimSpace(string(text)), "\n")
		w := newWorld(limits{
			running: strings.Contains(begin, "running"), revoking: strings.Contains(begin, "revoking"), fresh: strings.Contains(begin, "fresh"),
			prompt: strings.Contains(begin, "prompt"), restarts: 1,
		})
		w.play(strings.Split(steps, "\n")...)
		if w.broken != "" {
			t.Errorf("%s: %s", file, w.broken)
		}
	}
}

// TestEnumerationFindsEachMistake makes each known mistake in the protocol, and finds the broken promise by itself.
// TestTracesOfMistakes plays what it found.
func TestEnumerationFindsEachMistake(t *testing.T) {
	if os.Getenv(wholeVariable) == "" {
		t.Skipf("%s is not set: make soak plays hundreds of thousands of worlds", wholeVariable)
	}
	for name, l := range map[string]limits{
		"a revocation does not wait for Redis":              {running: true, prompt: true, restrictionAsAddition: true},
		"the last writer of Redis' number wins":             {running: true, revoking: true, lastWriter: true},
		"the key is looked up before the lease is checked":  {running: true, prompt: true, lookupFirst: true},
		"Redis' number is compared with the present one":    {running: true, prompt: true, compareLate: true},
		"a pod serves before its first lease":               {running: true, prompt: true, restarts: 1, serveBeforeLease: true},
		"a lease runs from the registration":                {prompt: true, leaseAtRegistration: true},
		"a pod registers with the newest number":            {running: true, prompt: true, reregisterNewest: true},
		"a pod that lags is marked as lost":                 {fresh: true, prompt: true, markApplied: true},
		"the author waits less than a lease":                {running: true, prompt: true, shortWait: true},
		"PostgreSQL loses a pod's row":                      {running: true, prompt: true, rowLoss: true},
		"rows are taken for dead by a clock that steps":     {running: true, prompt: true, clockOfRows: true},
		"a renewal reads from a replica":                    {running: true, prompt: true, staleReplica: true},
		"a pod deletes its row and still answers":           {running: true, prompt: true, stopEarly: true, restarts: 1},
		"a number counts as told when another shard has it": {running: true, revoking: true, oneShard: true},
		"both clocks of a pod stop while it is paused":      {running: true, prompt: true, frozen: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := enumerate(l, 400_000)
			if got.broken == "" {
				t.Fatalf("no promise is broken in %d worlds", got.worlds)
			}
			t.Logf("%d worlds: %s", got.worlds, got.broken)
			if folder := os.Getenv("DIRECTORY_TEST_TRACES"); folder != "" {
				begin := fmt.Sprintf("running=%v revoking=%v fresh=%v prompt=%v", l.running, l.revoking, l.fresh, l.prompt)
				for _, name := range []string{"running", "revoking", "fresh", "prompt"} {
					begin = strings.ReplaceAll(begin, name+"=false", "")
				}
				file := filepath.Join(folder, strings.ReplaceAll(strings.ReplaceAll(name, " ", "-"), "'", "")+".txt")
				text := strings.Join(append([]string{begin}, got.trace...), "\n") + "\n"
				if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}
