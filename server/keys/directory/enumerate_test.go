package directory

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
	"examprep.dev/server/testkit/race"
)

// The enumeration plays the protocol with the real code of pods and authors, in every order that a small world allows. It has
// two pods, one author that creates a key and revokes it, one request at a time, PostgreSQL, Redis. Statements are Go
// functions here; the tests of queries compare them with PostgreSQL. A message can be delayed, lost, or outlive its pod. Time
// passes in ticks. A pod can be killed, end properly and start again. Redis can lose its number.
//
// A step is a real step of the code: begin and the statement of a renewal, finish of a renewal, load, register, tell,
// judge, look, compare.

type result struct {
	worlds, exceptions int
	complete           bool
	broken             string
	trace              []string
}

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
		"renewals read before they commit":           {running: true, prompt: true, split: true},
		"lost pods come back":                        {running: true, prompt: true, split: true, silent: true},
		"lost pods come back, the key is new":        {fresh: true, prompt: true, split: true, silent: true},
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

// play does the named steps, and returns how many happened. A step that cannot happen is left out.
func (w *world) play(names ...string) (happened int) {
	for _, name := range names {
		for _, s := range w.steps() {
			if s.where+s.name == name {
				s.do()
				happened++
				break
			}
		}
	}
	return happened
}

// vocabulary returns the names of all steps. It takes random walks through worlds with all mistakes.
func vocabulary() map[string]bool {
	names := map[string]bool{}
	random := rand.New(rand.NewPCG(1, 2)) // the same walks each time
	for walk := range 400 {
		w := newWorld(limits{
			restarts: 3, losses: 3, running: walk%4 == 1, fresh: walk%4 == 2, prompt: walk%2 == 0, split: walk%8 < 4,
			rowLoss: true, staleReplica: true, oneShard: true, lastWriter: true, lookupFirst: walk%3 == 0, reregisterNewest: true,
			stopEarly: true, frozen: true, clockOfRows: walk%5 == 0,
		})
		for range 60 {
			steps := w.steps()
			for _, s := range steps {
				names[s.where+s.name] = true
			}
			steps[random.IntN(len(steps))].do()
		}
	}
	return names
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
	check.Equal(t, p.d.begin().told, 0, "confirmations after a load")
	p.d.confirm(before, live, live) // its message was under way
	check.Equal(t, p.d.begin().told, 0, "confirmations after a late one")
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
	known := vocabulary()
	for _, file := range files {
		text := testkit.ReadFile(t, file)
		begin, steps, _ := strings.Cut(strings.TrimSpace(string(text)), "\n")
		w := newWorld(limits{
			running: strings.Contains(begin, "running"), revoking: strings.Contains(begin, "revoking"), fresh: strings.Contains(begin, "fresh"),
			prompt: strings.Contains(begin, "prompt"), split: strings.Contains(begin, "split"), silent: strings.Contains(begin, "silent"), restarts: 1,
		})
		names := strings.Split(steps, "\n")
		for _, name := range names {
			check.Equal(t, known[name], true, "%s: step %q exists", file, name)
		}
		if happened := w.play(names...); 2*happened < len(names) {
			t.Errorf("%s: only %d of %d steps happened", file, happened, len(names))
		}
		check.Equal(t, w.broken, "", "%s", file)
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
		"a renewal revives a lost pod":                      {fresh: true, prompt: true, split: true, silent: true, lostRenews: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := enumerate(l, 400_000)
			if got.broken == "" {
				t.Fatalf("no promise is broken in %d worlds", got.worlds)
			}
			t.Logf("%d worlds: %s", got.worlds, got.broken)
			if folder := os.Getenv("DIRECTORY_TEST_TRACES"); folder != "" {
				begin := fmt.Sprintf("running=%v revoking=%v fresh=%v prompt=%v split=%v silent=%v", l.running, l.revoking, l.fresh, l.prompt, l.split, l.silent)
				for _, name := range []string{"running", "revoking", "fresh", "prompt", "split", "silent"} {
					begin = strings.ReplaceAll(begin, name+"=false", "")
				}
				file := filepath.Join(folder, strings.ReplaceAll(strings.ReplaceAll(name, " ", "-"), "'", "")+".txt")
				text := strings.Join(append([]string{begin}, got.trace...), "\n") + "\n"
				check.NoError(t, os.WriteFile(file, []byte(text), 0o600))
			}
		})
	}
}
