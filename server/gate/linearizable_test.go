package gate_test

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/google/uuid"

	"examprep.dev/server/gate"
	"examprep.dev/server/gate/gatetest"
	"examprep.dev/server/keys"
	"examprep.dev/server/testkit"
)

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
	e.tier(t, keys.TierSpec{Name: "endless", Requests: 1_000_000, Period: time.Second})
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
		record(9, func() (bool, bool) { return e.store.Revoke(context.Background(), uuid.Nil, key.Prefix) == nil, true },
			operation{kind: revocationBegins}, operation{kind: revocationEnds})
		group.Wait()
		if !porcupine.CheckOperations(keyModel(), history) {
			t.Fatal("some check saw a state that no order explains")
		}
	}
}
