package command

import (
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"examprep.dev/server/keys"
	"examprep.dev/server/keys/directory"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

type revokedKey struct {
	text     string
	answered atomic.Bool // the revocation is
}

type keyLoad struct {
	t             *testing.T
	pods          []*testkit.Pod
	client        *http.Client
	key           atomic.Pointer[revokedKey]
	passed, wrong atomic.Int64
}

// get returns the status of a request, 0 if there is no response. A request that passes though it was sent after the revocation
// was answered is counted as wrong.
func (l *keyLoad) get(pod *testkit.Pod) int {
	key := l.key.Load()
	answered := key.answered.Load()
	request, err := http.NewRequestWithContext(l.t.Context(), http.MethodGet, "http://"+pod.Address+"/v1/exam-prep/list", http.NoBody)
	if err != nil {
		panic(err)
	}
	request.Header.Set("Authorization", "Bearer "+key.text)
	response, err := l.client.Do(request)
	if err != nil {
		return 0
	}
	_ = response.Body.Close()
	if response.StatusCode == http.StatusOK {
		l.passed.Add(1)
		if answered {
			l.wrong.Add(1)
		}
	}
	return response.StatusCode
}

func (l *keyLoad) next(key string) {
	l.t.Helper()
	l.key.Store(&revokedKey{text: key})
	before := l.passed.Load()
	testkit.Eventually(l.t, "the key is used", func() bool { return l.passed.Load() > before+100 })
}

// TestRevocationHoldsWhilePodsAreStoppedAndEnd revokes keys under load while an API pod is stopped by SIGSTOP, ends by SIGTERM, and
// is killed. All have production's time limits.
func TestRevocationHoldsWhilePodsAreStoppedAndEnd(t *testing.T) {
	testkit.Soak(t)
	s := newEnv(t)
	s.Env = append(s.Env, asCommand+"="+asProduction)
	pool := testkit.Open(t, s.Database)
	s.store = keys.NewStore(pool, directory.NewAuthor(pool, directory.AuthorConfig{}))
	endless := keys.TierSpec{Name: keys.DefaultTier, Requests: 1_000_000, Period: time.Second}
	check.NoError(t, s.store.ApplyTier(t.Context(), endless))
	l := &keyLoad{t: t, client: &http.Client{Timeout: testkit.Patience}}
	for range 4 {
		l.pods = append(l.pods, s.start("api"))
	}
	l.pods[3].MayFail = true // it is killed
	defer stop(l.pods)
	first := s.newKey("acme")
	l.key.Store(&revokedKey{text: first})
	end := make(chan struct{})
	var workers sync.WaitGroup
	for i := range 8 {
		workers.Go(func() {
			for {
				select {
				case <-end:
					return
				default:
					l.get(l.pods[i%len(l.pods)])
				}
			}
		})
	}
	signal := func(pod int, s syscall.Signal) {
		check.NoError(t, l.pods[pod].Signal(s))
	}
	revoke := func() {
		key := l.key.Load()
		check.NoErrorf(t, s.store.RevokeAny(t.Context(), key.text[:keys.PrefixLength]), "the revocation is not confirmed")
		key.answered.Store(true)
	}
	l.next(first)

	signal(1, syscall.SIGSTOP)
	revoke()
	late := make(chan int, 1)
	go func() { late <- l.get(l.pods[1]) }()
	signal(1, syscall.SIGCONT)
	if status := testkit.Receive(t, late, "the pod that was stopped answers"); status != http.StatusUnauthorized && status != http.StatusServiceUnavailable {
		t.Errorf("the pod that was stopped answers a revoked key with %d", status)
	}

	l.next(s.newKey("acme"))
	ended := make(chan struct{})
	go func() { defer close(ended); l.pods[2].Stop() }()
	revoke()
	testkit.Receive(t, ended, "the pod ends")

	l.next(s.newKey("acme"))
	signal(3, syscall.SIGKILL)
	revoke()
	for i, pod := range l.pods[:2] {
		if status := l.get(pod); status != http.StatusUnauthorized && status != http.StatusTooManyRequests {
			t.Errorf("pod %d answers a revoked key with %d", i, status)
		}
	}
	close(end)
	workers.Wait()
	t.Logf("%d requests passed", l.passed.Load())
	if l.wrong.Load() > 0 {
		t.Errorf("%d of %d requests passed though they were sent after the answer", l.wrong.Load(), l.passed.Load())
	}
}
