package controllers

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"examprep.dev/api/v1alpha1"
	"examprep.dev/server/postgres"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

const (
	// chaosVariable is how long faults and edits go on; `make soak` sets it.
	chaosVariable = "CONTROLLERS_TEST_CHAOS"
	shortChaos    = 10 * time.Second
	// chaosPatience limits the recovery after the last kill: on a busy machine with the race detector on, a control plane
	// needs minutes to start.
	chaosPatience = 4 * testkit.Patience

	// Before the first edit so many resources exist: fewer when the faults are short.
	chaosResources, shortChaosResources = 200, 60
	// chaosRivals of them want the exam key of another.
	chaosRivals = 20
	editors     = 3
	operator    = "operator"
)

type chaos struct {
	t       *testing.T
	private *private
	kube    client.Client
	pool    *pgxpool.Pool
	seed    uint64
	spaces  []string
	// resources is how many there are.
	resources int

	mu sync.Mutex
	// done counts edits that the API server took, by kind; kills counts faults.
	done, kills map[string]int
	refused     int
}

func TestServedExamsMatchDeclaredExamsAfterKills(t *testing.T) {
	t.Parallel()
	testkit.Soak(t)
	duration := testkit.Duration(t, chaosVariable, shortChaos)
	c := startChaos(t)
	if c.resources = chaosResources; duration <= shortChaos {
		c.resources = shortChaosResources
	}
	witness := c.watch()
	c.createAll()
	ctx, cancel := context.WithTimeout(t.Context(), duration)
	defer cancel()
	var wait sync.WaitGroup
	for i := range editors {
		wait.Go(func() { c.edit(ctx, i) })
	}
	wait.Go(func() { c.upset(ctx) })
	wait.Wait()
	for _, token := range []string{"once", "once more"} { // a deletion in one namespace may free a key for the other
		c.recover(token)
	}
	c.checkDeclared()
	witness.stop()
	c.checkHistory(witness)
	t.Logf("in %s: edits %v, refused or unanswered %d; killed %v; %d looks at exams with answers recomputed, %d of them while "+
		"something was away", duration, c.done, c.refused, c.kills, witness.looks, witness.failures)
}

func startChaos(t *testing.T) *chaos {
	t.Helper()
	c := &chaos{
		t: t, private: startPrivate(t), seed: uint64(time.Now().UnixNano()),
		spaces: []string{"first", "second"}, done: map[string]int{}, kills: map[string]int{},
	}
	t.Logf("seed %d", c.seed)
	check.NoError(t, postgres.Migrate(t.Context(), c.private.databaseURL, postgres.Production))
	var err error
	if c.pool, err = pgxpool.New(t.Context(), c.private.databaseURL); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.pool.Close)
	scheme, err := NewScheme()
	check.NoError(t, err)
	if c.kube, err = client.New(c.private.config, client.Options{Scheme: scheme}); err != nil {
		t.Fatal(err)
	}
	for _, name := range c.spaces {
		space := namespace(name)
		check.NoError(t, c.kube.Create(t.Context(), space))
	}
	self, err := os.Executable()
	check.NoError(t, err)
	job := strings.Join(append([]string{c.private.kubeconfig, c.private.databaseURL}, c.spaces...), " ")
	check.NoError(t, c.private.run(t.Context(), operator, self, nil, []string{operatorVariable + "=" + job}))
	return c
}

func (c *chaos) random(stream int) *rand.Rand { return rand.New(rand.NewPCG(c.seed, uint64(stream))) }

func (c *chaos) note(counts map[string]int, what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	counts[what]++
}

// upset kills one of the four at random moments, each as often as the others. A store that dies three times within a
// minute is taken for broken by what starts it again, so that a round takes a minute.
func (c *chaos) upset(ctx context.Context) {
	chance := c.random(-1)
	victims := []string{operator, apiServer, etcdServer, postgresServer}
	for round := 0; ctx.Err() == nil; round++ {
		began := time.Now()
		chance.Shuffle(len(victims), func(i, j int) { victims[i], victims[j] = victims[j], victims[i] })
		for _, victim := range victims {
			if !pause(ctx, time.Second+time.Duration(chance.Int64N(int64(7*time.Second)))) {
				return
			}
			if err := c.private.Kill(victim); err == nil {
				c.note(c.kills, victim)
			}
		}
		pause(ctx, 61*time.Second-time.Since(began))
	}
}

// pause waits, and reports false when ctx ended first.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// recover waits until the API server and the database answer and the operator has acted on every resource as it is.
func (c *chaos) recover(token string) {
	c.t.Helper()
	for _, space := range c.spaces {
		c.until("the operator has looked at all of "+space, func(ctx context.Context) error {
			list := &v1alpha1.ExamContentList{}
			if err := c.kube.List(ctx, list, client.InNamespace(space)); err != nil {
				return err
			}
			var waiting []error
			for i := range list.Items {
				if err := c.handled(ctx, &list.Items[i], token); err != nil {
					waiting = append(waiting, err)
				}
			}
			return errors.Join(waiting...)
		})
	}
}

// handled asks for a reconcile of a resource and fails until it was made.
func (c *chaos) handled(ctx context.Context, content *v1alpha1.ExamContent, token string) error {
	name := content.Namespace + "/" + content.Name
	switch {
	case !content.DeletionTimestamp.IsZero():
		return fmt.Errorf("%s is not deleted yet", name)
	case content.Annotations[v1alpha1.ReconcileRequestAnnotation] != token:
		patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, v1alpha1.ReconcileRequestAnnotation, token)
		if err := c.kube.Patch(ctx, content, client.RawPatch("application/merge-patch+json", []byte(patch))); err != nil {
			return err
		}
		return fmt.Errorf("%s was asked only now", name)
	case content.Status.ObservedGeneration != content.Generation,
		!content.Spec.Suspend && content.Status.LastHandledReconcileAt != token:
		return fmt.Errorf("%s was not looked at: %+v", name, content.Status.Conditions)
	default:
		return nil
	}
}

// until repeats ask until it succeeds; an error can come from a server that is down.
func (c *chaos) until(what string, ask func(context.Context) error) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.t.Context()), chaosPatience)
	defer cancel()
	for {
		one, end := context.WithTimeout(ctx, testkit.Patience)
		err := ask(one)
		end()
		if err == nil {
			return
		}
		select {
		case broken := <-c.private.Failed():
			c.t.Fatalf("%s: %v", what, broken)
		default:
		}
		if !pause(ctx, 250*time.Millisecond) {
			text := err.Error()
			c.t.Fatalf("%s: not after %s: %s\nthe operator's last words:\n%s", what, chaosPatience, text[:min(len(text), 4000)], tail(c.private.Log(operator)))
		}
	}
}

func tail(text string) string { return text[max(0, len(text)-4000):] }

// names are the resources' names and exam keys: a few in the second namespace want the key of one in the first.
func (c *chaos) name(i int) (space, name, examKey string) {
	if i >= c.resources-chaosRivals {
		return c.spaces[1], fmt.Sprintf("rival-%03d", i), fmt.Sprintf("exam-%03d", i-(c.resources-chaosRivals))
	}
	return c.spaces[0], fmt.Sprintf("exam-%03d", i), fmt.Sprintf("exam-%03d", i)
}
