package gate_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"examprep.dev/server/gate"
	"examprep.dev/server/keys"
	"examprep.dev/server/testkit"
)

// keyModel is one key as a register: it is valid until a revocation, and a check says which. Each revocation and each
// check must look as if it happened at one instant between its call and its answer.
func keyModel() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return true },
		Step: func(state, input, output any) (bool, any) {
			valid, _ := state.(bool)
			if revoke, _ := input.(bool); revoke {
				return true, false
			}
			return output == valid, valid
		},
	}
}

func TestChecksAndRevocationsAreLinearizable(t *testing.T) {
	h := newHouse(t, nil)
	pods := []*gate.Gate{h.gate, h.newGate(nil), h.newGate(nil)}
	for _, pod := range pods {
		testkit.Run(t, pod.Run)
	}
	h.tier(t, keys.TierSpec{Name: "endless", Requests: 1_000_000, Period: time.Second})
	for range 25 {
		key := h.create(t, "endless")
		var mu sync.Mutex
		var history []porcupine.Operation
		var clock, checks atomic.Int64 // a logical clock: it orders what does not overlap
		record := func(client int, input bool, do func() bool) {
			call := clock.Add(1)
			output := do()
			answered := clock.Add(1)
			mu.Lock()
			defer mu.Unlock()
			history = append(history, porcupine.Operation{ClientId: client, Input: input, Output: output, Call: call, Return: answered})
		}
		var group sync.WaitGroup
		for worker := range 9 {
			group.Go(func() {
				for range 40 {
					record(worker, false, func() bool { return allowed(pods[worker%len(pods)], key) })
					checks.Add(1)
				}
			})
		}
		testkit.Eventually(t, "the key is used", func() bool { return checks.Load() > 60 })
		record(9, true, func() bool { return h.store.Revoke(context.Background(), key.Prefix) == nil })
		group.Wait()
		if !porcupine.CheckOperations(keyModel(), history) {
			t.Fatal("some check saw a state that no order explains")
		}
	}
}
