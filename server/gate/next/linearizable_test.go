package gate_test

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	gate "examprep.dev/server/gate/next"
	"examprep.dev/server/gate/next/gatetest"
	"examprep.dev/server/keys"
	"examprep.dev/server/testkit"
)

// keyModel is one key at one pod as a register: it is valid until a revocation, and a check says which. At each pod the
// revocation and each check must look as if they happened at one instant between call and answer. While a revocation is
// under way, pods may differ: they apply it one after the other.
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
	t.Parallel()
	e := newEnv(t, gatetest.Config{})
	pods := []*gatetest.Pod{e.gate, e.newPod(t), e.newPod(t)}
	e.tier(t, keys.TierSpec{Name: "endless", Requests: 1_000_000, Period: time.Second})
	for range 25 {
		key := e.create(t, "endless")
		var mu sync.Mutex
		history := make([][]porcupine.Operation, len(pods))
		var clock, checks atomic.Int64 // a logical clock: it orders what does not overlap
		record := func(pod, client int, input bool, do func() (valid, known bool)) {
			call := clock.Add(1)
			output, known := do()
			answered := clock.Add(1)
			mu.Lock()
			defer mu.Unlock()
			if !known { // a 503 says nothing about the key
				return
			}
			operation := porcupine.Operation{ClientId: client, Input: input, Output: output, Call: call, Return: answered}
			for i := range pods {
				if i == pod || input { // a revocation is at all pods
					history[i] = append(history[i], operation)
				}
			}
		}
		var group sync.WaitGroup
		for worker := range 9 {
			group.Go(func() {
				for range 40 {
					runtime.Gosched() // as a request does that comes by the network
					record(worker%len(pods), worker, false, func() (valid, known bool) {
						d := pods[worker%len(pods)].Check(context.Background(), bearer(key.Key), client)
						return d.Outcome == gate.Allowed, d.Outcome != gate.Unavailable
					})
					checks.Add(1)
				}
			})
		}
		testkit.Eventually(t, "the key is used", func() bool { return checks.Load() > 60 })
		record(0, 9, true, func() (bool, bool) { return e.store.Revoke(context.Background(), key.Prefix) == nil, true })
		group.Wait()
		for pod := range history {
			if !porcupine.CheckOperations(keyModel(), history[pod]) {
				t.Fatalf("some check at pod %d saw a state that no order explains", pod)
			}
		}
	}
}
