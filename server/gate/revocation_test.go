package gate_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/anishathalye/porcupine"

	"examprep.dev/server/gate"
	"examprep.dev/server/gate/gatetest"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

func TestARevokedKeyIsRefusedByEveryPodAtOnce(t *testing.T) {
	t.Parallel()
	e := newEnv(t, gatetest.Config{})
	pods := []*gatetest.Pod{e.gate, e.newPod(t), e.newPod(t)}
	key := e.create(t, "")
	for i, pod := range pods {
		expectOutcome(t, pod.Check(t.Context(), bearer(key.Key), client), gate.Allowed, "pod %d, before", i)
	}
	e.revoke(t, key)
	for i, pod := range pods {
		expectOutcome(t, pod.Check(t.Context(), bearer(key.Key), client), gate.Unauthorized, "pod %d, after", i)
	}
}

func TestAKeyJustCreatedPassesAtEveryPod(t *testing.T) {
	t.Parallel()
	e := newEnv(t, gatetest.Config{})
	pods := []*gatetest.Pod{e.gate, e.newPod(t), e.newPod(t), e.newPod(t)}
	for range 20 {
		key := e.create(t, "")
		for i, pod := range pods {
			expectOutcome(t, pod.Check(t.Context(), bearer(key.Key), client), gate.Allowed, "pod %d", i)
		}
	}
}

const (
	checked = iota
	revocationBegins
	revocationEnds
)

// operation is the input of the model.
type operation struct{ kind, pod int }

// keyState is a key at all pods: valid until a revocation begins, refused after it ends. Meanwhile each pod refuses it from a
// moment of its own on.
type keyState struct {
	phase   int // the last part of the revocation that happened; checked: none
	refused uint8
}

func keyModel() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return keyState{} },
		Step: func(state, input, output any) (bool, any) {
			s, _ := state.(keyState)
			op, _ := input.(operation)
			if op.kind != checked {
				return op.kind == s.phase+1, keyState{phase: op.kind, refused: s.refused}
			}
			if passed, _ := output.(bool); passed {
				return s.phase != revocationEnds && s.refused>>op.pod&1 == 0, s
			}
			s.refused |= 1 << op.pod
			return s.phase != checked, s
		},
	}
}

func TestChecksAndRevocationsAreLinearizable(t *testing.T) {
	t.Parallel()
	e := newEnv(t, gatetest.Config{})
	pods := []*gatetest.Pod{e.gate, e.newPod(t), e.newPod(t)}
	e.endless(t)
	for range 25 {
		key := e.create(t, "endless")
		var mu sync.Mutex
		var history []porcupine.Operation
		var clock, checks atomic.Int64 // a logical clock: it orders what does not overlap
		record := func(client int, do func() (valid, known bool), inputs ...operation) {
			call := clock.Add(1)
			output, known := do()
			answered := clock.Add(1)
			mu.Lock()
			defer mu.Unlock()
			if !known { // a 503 says nothing about the key
				return
			}
			for i, input := range inputs {
				history = append(history, porcupine.Operation{ClientId: client + i, Input: input, Output: output, Call: call, Return: answered})
			}
		}
		var group sync.WaitGroup
		for worker := range 9 {
			group.Go(func() {
				for range 40 {
					runtime.Gosched() // as a request does that comes by the network
					pod := worker % len(pods)
					record(worker, func() (valid, known bool) {
						d := pods[pod].Check(context.Background(), bearer(key.Key), client)
						return d.Outcome == gate.Allowed, d.Outcome != gate.Unavailable
					}, operation{checked, pod})
					checks.Add(1)
				}
			})
		}
		testkit.Eventually(t, "the key is used", func() bool { return checks.Load() > 60 })
		var err error
		record(9, func() (valid, known bool) {
			err = e.store.RevokeAny(patient(t), key.Prefix)
			return true, true
		}, operation{kind: revocationBegins}, operation{kind: revocationEnds})
		check.NoError(t, err)
		group.Wait()
		if !porcupine.CheckOperations(keyModel(), history) {
			t.Fatal("some check saw a state that no order explains")
		}
	}
}

// changesVariable sets the number of changes of keys.
const changesVariable = "GATE_TEST_CHANGES"

// churn makes n changes of the keys service_00000000 to service_000003e7, each in its own transaction.
func churn(t *testing.T, e *env, n int) (wait func()) {
	t.Helper()
	const writers = 5
	testkit.Exec(t, e.pool, `
		INSERT INTO api_keys (id, account_id, prefix, family_id, hash)
		SELECT g.id, a.id, 'service_' || lpad(to_hex(n), 8, '0'), g.id, sha256(convert_to(n::text, 'UTF8'))
		FROM accounts a, generate_series(0, 999) n, LATERAL (SELECT ('00000000-0000-4000-8000-' || lpad(to_hex(n), 12, '0'))::uuid AS id) g
		WHERE a.name = 'acme'`)
	var group sync.WaitGroup
	for writer := range writers {
		group.Go(func() {
			for i := writer; i < n; i += writers {
				_, err := e.pool.Exec(t.Context(), "UPDATE api_keys SET expires_at = now() + interval '1 day' WHERE prefix = $1",
					fmt.Sprintf("service_%08x", i%1000))
				if err != nil {
					t.Errorf("change %d: %v", i, err)
					return
				}
			}
		})
	}
	return group.Wait
}

// TestManyChangesMakeNoRequestUnavailable: other keys change while clients use one key, and while keys are created and revoked.
func TestManyChangesMakeNoRequestUnavailable(t *testing.T) {
	t.Parallel()
	e := newEnv(t, gatetest.Config{})
	pods := []*gatetest.Pod{e.gate, e.newPod(t), e.newPod(t)}
	e.endless(t)
	l := startLoad(t, pods, 6, e.create(t, "endless"))
	changed := make(chan struct{})
	wait := churn(t, e, int(testkit.Size(t, changesVariable, 1500)))
	go func() { defer close(changed); wait() }()
	for round, over := 0, false; !over; round++ {
		select {
		case <-changed:
			over = true // this is the last round
		default:
		}
		key := e.create(t, "endless")
		for i, pod := range pods {
			expectOutcome(t, pod.Check(t.Context(), bearer(key.Key), client), gate.Allowed, "pod %d, a new key", i)
		}
		e.revoke(t, key)
		for i, pod := range pods {
			expectOutcome(t, pod.Check(t.Context(), bearer(key.Key), address(round)), gate.Unauthorized, "pod %d, a revoked key", i)
		}
	}
	l.end(t)
	if l.failed.Load() > 0 || l.passed.Load() == 0 {
		t.Errorf("%d requests with a valid key did not pass, %d did", l.failed.Load(), l.passed.Load())
	}
}
