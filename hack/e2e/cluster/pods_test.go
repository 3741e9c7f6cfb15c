//go:build e2e

package cluster

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"examprep.dev/hack/e2e/crowdtest"
	"examprep.dev/server/testkit/check"
)

// drainLosesNothing evicts every API pod under load, as a drained node does: through the eviction API, which refuses
// while the disruption budget is used up, one after the other.
func drainLosesNothing(t *testing.T, r *release, papers []*crowdtest.Paper) {
	r.losesNothing(t, papers, func(t *testing.T) {
		refused := 0
		victims := r.pods(t, r.namespace, r.selector("api"))
		for _, pod := range victims {
			eventually(t, 3*time.Minute, "the eviction of "+pod.Name, func() bool {
				err := r.kube.CoreV1().Pods(r.namespace).EvictV1(t.Context(), &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Namespace: r.namespace}})
				if apierrors.IsTooManyRequests(err) {
					refused++
					return false
				}
				if err != nil && !gone(err) {
					t.Fatal(err)
				}
				return true
			})
		}
		r.awaitWhole(t, "api")
		t.Logf("%d API pods evicted; the disruption budget made us wait %d times", len(victims), refused)
		if refused == 0 {
			t.Error("the disruption budget refused nothing, though all API pods were to be evicted at once")
		}
	})
}

// operatorIsReplaced deletes the operator that holds the lease, once gracefully and once by force, and finds a change of
// content published by another. Clients notice nothing.
func operatorIsReplaced(t *testing.T, r *release, papers []*crowdtest.Paper) {
	for _, how := range []struct {
		name  string
		grace *int64
	}{{"that leaves by itself", nil}, {"that is killed", new(int64)}} {
		t.Run(how.name, func(t *testing.T) {
			r.losesNothing(t, papers, func(t *testing.T) {
				leader := r.leader(t)
				began := time.Now()
				r.deletePod(t, leader, how.grace)
				name := "Published without " + leader
				r.applyFixture(t, name)
				eventually(t, 2*time.Minute, "the change to be served", func() bool { return strings.Contains(r.served(t, fixture, "/overview"), name) })
				took := time.Since(began)
				r.awaitUpdate(t, fixture)
				t.Logf("%s led; a change made after its end was served %s later, by %s", leader, seconds(took), r.leader(t))
				if r.leader(t) == leader {
					t.Error("the same pod leads")
				}
				r.awaitWhole(t, "operator")
			})
		})
	}
}

// leader is the pod that holds the operators' lease.
func (r *release) leader(t *testing.T) string {
	t.Helper()
	leases, err := r.kube.CoordinationV1().Leases(r.namespace).List(t.Context(), metav1.ListOptions{})
	check.NoError(t, err)
	for _, lease := range leases.Items {
		if strings.HasSuffix(lease.Name, "-operator.examprep.dev") && lease.Spec.HolderIdentity != nil {
			pod, _, _ := strings.Cut(*lease.Spec.HolderIdentity, "_")
			return pod
		}
	}
	return ""
}

// deletePod deletes a pod; a grace of zero seconds is what kubectl calls --force.
func (r *release) deletePod(t *testing.T, name string, grace *int64) {
	t.Helper()
	err := r.kube.CoreV1().Pods(r.namespace).Delete(t.Context(), name, metav1.DeleteOptions{GracePeriodSeconds: grace})
	if err != nil && !gone(err) {
		t.Fatal(err)
	}
}

// deletedPodsLoseNothing deletes pods of all kinds at random under load. It leaves a component alone that is not whole:
// nothing can stand the loss of its last pod, and it is the disruption budget that keeps others from taking it.
func deletedPodsLoseNothing(t *testing.T, r *release, papers []*crowdtest.Paper) {
	r.losesNothing(t, papers, func(t *testing.T) {
		t.Logf("pods deleted: %v", r.deleteAtRandom(t, nil))
	})
}

// killedPodsLoseNothing deletes pods by force. Their requests in hand get no answer; what the specification lets clients
// do about that is all they do. No other request is answered anything but 200 or a 503 that may be tried again, every
// submission that was answered is kept and told of, and every other one is whole or untouched.
func killedPodsLoseNothing(t *testing.T, r *release, papers []*crowdtest.Paper) {
	crowd, meter := r.underLoad(t, papers, *rate, func(t *testing.T) {
		t.Logf("pods killed: %v", r.deleteAtRandom(t, new(int64)))
	})
	t.Logf("%d requests got no answer, %d were answered 503", meter.Count(func(status int) bool { return status == 0 }),
		meter.Count(func(status int) bool { return status == 503 }))
	if failed := meter.Count(func(status int) bool { return status != 0 && status != 200 && status != 503 }); failed > 0 {
		t.Errorf("%d requests were answered otherwise", failed)
	}
	crowd.CheckKept(t, r.api, r.stores.receiver)
}

// deleteAtRandom deletes pods until the time is over, and counts them by component.
func (r *release) deleteAtRandom(t *testing.T, grace *int64) map[string]int {
	t.Helper()
	const pause = 2 * time.Second
	chance := rand.New(rand.NewPCG(uint64(*seed), 0))
	deleted := map[string]int{}
	for over := time.Now().Add(*chaos); time.Now().Before(over); pass(t, pause) {
		component := components[chance.IntN(len(components))]
		if !r.whole(t, component) {
			continue
		}
		pods := r.pods(t, r.namespace, r.selector(component))
		if len(pods) < 2 {
			continue
		}
		r.deletePod(t, pick(pods, chance).Name, grace)
		deleted[component]++
	}
	for _, component := range components {
		r.awaitWhole(t, component)
	}
	return deleted
}

func pick(pods []corev1.Pod, chance *rand.Rand) corev1.Pod { return pods[chance.IntN(len(pods))] }
