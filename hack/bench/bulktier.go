package main

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"examprep.dev/hack/dev/process"
)

const (
	// goldTier is the tier that is deleted.
	goldTier = "bench-gold"
	// listPath is asked for by keys.
	listPath = "/v1/exam-prep/list"
	// tierPods is how many pods there are.
	tierPods = 2
	// revocations is the least number of keys that are revoked during the deletion, one after the other.
	revocations = 5
	// beforeDeletion is how long keys are used before the deletion begins, and after it has ended.
	beforeDeletion = 2 * time.Second
	// keyPause is the pause between two requests to a pod.
	keyPause = 2 * time.Millisecond
	// changeLimit is how long a change of keys may take.
	changeLimit = time.Minute
)

// measureTierDeletion deletes a tier that many keys have. Meanwhile keys are used at two pods, and revoked.
func (s *stack) measureTierDeletion(ctx context.Context, r *report) error {
	databaseURL, pool, err := s.createDatabase(ctx, "bulk_tier")
	if err != nil {
		return err
	}
	defer s.dropDatabase(context.WithoutCancel(ctx), pool)
	program := s.program(databaseURL)
	if err := program.migrate(ctx); err != nil {
		return err
	}
	if _, err := pool.Exec(ctx, "INSERT INTO rate_tiers (name, requests, period_seconds, burst) VALUES ($1, 1000, 1, 1000)", goldTier); err != nil {
		return fmt.Errorf("write a tier: %w", err)
	}
	first, err := program.createKey(ctx, goldTier)
	if err != nil {
		return err
	}
	count := s.share(tierKeys)
	s.say("making %d keys of a tier", count)
	keys, err := insertKeys(ctx, pool, first, count-1)
	if err != nil {
		return err
	}
	supervisor, err := process.New(s.dir.Path("log"), s.dir.Path("pids"), s.say)
	if err != nil {
		return err
	}
	defer supervisor.Stop()
	var addresses []string
	for n := range tierPods {
		address, err := s.startPodUnder(ctx, supervisor, fmt.Sprintf("api-tier-%d", n), "DATABASE_URL="+databaseURL, manyKeysMemory)
		if err != nil {
			return err
		}
		addresses = append(addresses, address)
	}
	found, err := newKeyStore(pool).deleteTier(ctx, keys.all(), addresses)
	if err != nil {
		return err
	}
	s.judgeBulk(r, verdict{what: fmt.Sprintf("bulk: deletion of a tier of %d keys", count), unit: " s", bar: 1, measured: found.deletion.Seconds()})
	s.judgeBulk(r, verdict{what: "bulk: requests during it with valid keys that failed", bar: 0, measured: float64(found.failed)})
	r.notef("During the deletion of the tier %d requests had 200, and %d failed, for %s at the longest; status and count: %v.",
		found.succeeded, found.failed, brief(found.longestFailure), found.statuses)
	return s.judgeDelays(r, &found.revocations, "bulk: revocation during it", 3*time.Second)
}

// tierDeletion is what was measured during the deletion of a tier.
type tierDeletion struct {
	deletion    time.Duration
	revocations delays

	mu                sync.Mutex
	statuses          map[int]int // 0: no response
	succeeded, failed int
	// longestFailure is the longest time without a success at a pod.
	longestFailure time.Duration
}

// deleteTier deletes goldTier while the keys are used at the addresses, each once, and the last of them are revoked.
func (k keyStore) deleteTier(ctx context.Context, keys, addresses []string) (*tierDeletion, error) {
	found := &tierDeletion{statuses: map[int]int{}}
	using, stop := context.WithCancel(ctx)
	defer stop()
	var users sync.WaitGroup
	part := len(keys) / (len(addresses) + 1)
	for n, address := range addresses {
		users.Go(func() { found.use(using, address, keys[n*part:][:part]) })
	}
	wait(ctx, time.NewTimer(beforeDeletion), beforeDeletion)
	group, within := errgroup.WithContext(ctx)
	deleted := make(chan struct{})
	group.Go(func() error {
		defer close(deleted)
		within, cancel := context.WithTimeout(within, changeLimit)
		defer cancel()
		began := time.Now()
		defer func() { found.deletion = time.Since(began) }()
		return k.deleteOne(within, goldTier)
	})
	group.Go(func() error {
		for n := 0; n < revocations || !isClosed(deleted); n++ {
			within, cancel := context.WithTimeout(within, changeLimit)
			began := time.Now()
			err := k.revoke(within, keys[len(keys)-1-n][:prefixLength])
			cancel()
			found.revocations.add(time.Since(began))
			if err != nil {
				return fmt.Errorf("revoke a key: %w", err)
			}
		}
		return nil
	})
	err := group.Wait()
	wait(ctx, time.NewTimer(beforeDeletion), beforeDeletion)
	stop()
	users.Wait()
	return found, err
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// use makes a request with one key after the other until ctx ends.
func (t *tierDeletion) use(ctx context.Context, address string, keys []string) {
	client := &http.Client{Transport: &http.Transport{}, Timeout: answerTime}
	var failing time.Time
	for n := 0; ctx.Err() == nil; n++ {
		status := list(ctx, client, address, keys[n%len(keys)])
		if ctx.Err() != nil {
			return
		}
		t.mu.Lock()
		t.statuses[status]++
		if status == http.StatusOK {
			t.succeeded, failing = t.succeeded+1, time.Time{}
		} else {
			if failing.IsZero() {
				failing = time.Now()
			}
			t.failed, t.longestFailure = t.failed+1, max(t.longestFailure, time.Since(failing))
		}
		t.mu.Unlock()
		wait(ctx, time.NewTimer(keyPause), keyPause)
	}
}

// list returns the status of a request; 0 if there was no response.
func list(ctx context.Context, client *http.Client, address, key string) int {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+listPath, http.NoBody)
	if err != nil {
		return 0
	}
	request.Header.Set("Authorization", "Bearer "+key)
	response, err := client.Do(request)
	if err != nil {
		return 0
	}
	_ = response.Body.Close()
	return response.StatusCode
}
