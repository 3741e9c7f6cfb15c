package main

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"examprep.dev/hack/dev/process"
)

const (
	// zipfExponent is the exponent of the usual benchmarks of key-value stores, as near to 1 as math/rand draws.
	zipfExponent = 1.01
	// draws is how many requests there are until the same keys come again.
	draws = 1 << 20
	// touchClients bring the keys' buckets into Redis.
	touchClients = 256
	// rollUpTime bounds how long it takes until the use of all keys is in the usage.
	rollUpTime = 5 * time.Minute
	// rewriteTime bounds how long Redis takes to rewrite its file.
	rewriteTime = 2 * time.Minute
	// bucketBytes is what a key may take in Redis, and directoryMegabytes what all may take in a pod.
	bucketBytes, directoryMegabytes = 100, 100
	// manyKeysMemory is the memory limit of a pod that holds all keys: 15 % of it are for the directory.
	manyKeysMemory = "GOMEMLIMIT=1GiB"
)

// keySet is the texts of keys, end to end: a million strings apart would cost the load generator what is not the
// server's.
type keySet struct {
	host string
	text []byte
}

func (k keySet) count() int { return len(k.text) / keyLength }

// all returns the texts one by one.
func (k keySet) all() []string {
	all := make([]string, 0, k.count())
	for text := range slices.Chunk(k.text, keyLength) {
		all = append(all, string(text))
	}
	return all
}

// requests returns a load that asks with the key that which names. Each connection has a buffer of its own.
func (k keySet) requests(clients int, which func(connection, n int) (key int, more bool)) load {
	whole := getRequest(k.host, overviewPath, string(k.text[:keyLength]))
	at := bytes.Index(whole, k.text[:keyLength])
	buffers := make([][]byte, clients)
	for i := range buffers {
		buffers[i] = bytes.Clone(whole)
	}
	return load{addresses: []string{k.host}, clients: clients, request: func(connection, n int) []byte {
		key, more := which(connection, n)
		if !more {
			return nil
		}
		copy(buffers[connection][at:], k.text[key*keyLength:][:keyLength])
		return buffers[connection]
	}}
}

// zipf asks with keys drawn in advance, which lie in the order in which they come: to look for each among all of them would
// cost the load generator what is not the server's. A turn goes on where the last one ended.
func (k keySet) zipf() load {
	draw := rand.NewZipf(rand.New(rand.NewPCG(5, 0)), zipfExponent, 1, uint64(k.count()-1))
	drawn := keySet{host: k.host, text: make([]byte, 0, draws*keyLength)}
	for range draws {
		key := int(draw.Uint64())
		drawn.text = append(drawn.text, k.text[key*keyLength:][:keyLength]...)
	}
	place := 0
	return drawn.requests(connections, func(int, int) (int, bool) {
		place = (place + 1) % draws
		return place, true
	})
}

// once asks with each key once.
func (k keySet) once() load {
	return k.requests(touchClients, func(connection, n int) (int, bool) {
		key := n*touchClients + connection
		return key, key < k.count()
	})
}

// measureManyKeys compares traffic over many keys, Zipf-distributed, with the same over the usual number, in turns.
func measureManyKeys(ctx context.Context, s *stack, duration time.Duration, r *report) error {
	usual, err := s.warmOverviews(ctx, duration)
	if err != nil {
		return err
	}
	s.say("making %d keys", s.manyKeys)
	before, _, err := s.podMemory(ctx)
	if err != nil {
		return err
	}
	like, err := s.program(s.databaseURL).createKey(ctx, slowTier)
	if err != nil {
		return err
	}
	many, err := insertKeys(ctx, s.pool, like, s.manyKeys)
	if err != nil {
		return err
	}
	many.host = s.api
	after, directory, err := s.podMemory(ctx)
	if err != nil {
		return err
	}
	s.say("using each once")
	each, err := s.touch(ctx, many)
	if err != nil {
		return err
	}
	few := keySet{host: s.api, text: []byte(strings.Join(s.keys, ""))}
	turn := turnTime(duration, keysTurns)
	run := func(l load) *contender {
		return &contender{run: func(ctx context.Context) (sample, error) {
			return s.during(ctx, l, turn, processAPI, processRedis, processPostgres)
		}}
	}
	wide, narrow, even := run(many.zipf()), run(few.zipf()), run(usual)
	for _, warm := range []*contender{wide, narrow} {
		if _, err := warm.run(ctx); err != nil {
			return err
		}
	}
	if err := takeTurns(ctx, keysTurns, wide, narrow, even); err != nil {
		return err
	}
	r.judge(verdict{what: fmt.Sprintf("keys: Redis' memory per key, %d keys", s.manyKeys), unit: " bytes", bar: bucketBytes, measured: each})
	r.judge(verdict{what: fmt.Sprintf("keys: memory of a new pod that %d keys add", s.manyKeys), unit: " MB", bar: directoryMegabytes, measured: after - before})
	r.notef("By its own count the pod's directory of keys takes %.1f MB.", directory)
	s.reportKeys(r, wide.turns, narrow.turns, even.turns)
	return nil
}

// reportKeys adds the turns' figures, and weighs many keys against each other load.
func (s *stack) reportKeys(r *report, wide, narrow, even series) {
	r.medians(fmt.Sprintf("GET overview with %d keys, Zipf-distributed", s.manyKeys), wide)
	r.medians(fmt.Sprintf("  with %d keys, Zipf-distributed", keyCount), narrow)
	r.medians(fmt.Sprintf("  with %d keys, one after the other", keyCount), even)
	for _, other := range []struct {
		name  string
		turns series
	}{{"", narrow}, {", one after the other", even}} {
		r.judge(verdict{
			what: fmt.Sprintf("keys: requests/s with %d / with %d%s", s.manyKeys, keyCount, other.name), unit: "×", bar: 0.8, goal: 0.95, least: true,
			measured: ratio(wide, other.turns, (*sample).rate),
		})
	}
}

// podMemory returns the resident memory of a pod that has just become ready, and the memory of its directory of keys, in MB.
func (s *stack) podMemory(ctx context.Context) (resident, directory float64, err error) {
	supervisor, err := process.New(s.dir.Path("log"), s.dir.Path("pids"), s.say)
	if err != nil {
		return 0, 0, err
	}
	defer supervisor.Stop()
	const name = "weighed"
	if _, err := s.startPodUnder(ctx, supervisor, name, manyKeysMemory); err != nil {
		return 0, 0, err
	}
	pods, err := s.watched(name)
	if err != nil {
		return 0, 0, err
	}
	now, err := readMemory(pods[0].pid)
	if err != nil {
		return 0, 0, err
	}
	counted, err := s.metricsOf(ctx, name)
	return now.now, counted.sum("examprep_keys_directory_bytes") / (1 << 20), err
}

// touch uses each key once, on a pod that is then stopped, and returns what a key takes in Redis.
func (s *stack) touch(ctx context.Context, set keySet) (bytesPerKey float64, err error) {
	before, err := s.redisInfo(ctx, "memory", "used_memory")
	if err != nil {
		return 0, err
	}
	supervisor, err := process.New(s.dir.Path("log"), s.dir.Path("pids"), s.say)
	if err != nil {
		return 0, err
	}
	defer supervisor.Stop()
	const name = "toucher"
	if set.host, err = s.ports.Address(ctx, name); err != nil {
		return 0, err
	}
	if err := s.startUnder(ctx, supervisor, name, "api", "EXAMPREP_LISTEN="+set.host, manyKeysMemory); err != nil {
		return 0, err
	}
	if _, _, err := set.once().drive(ctx, time.Hour); err != nil {
		return 0, err
	}
	supervisor.Stop()
	if err := s.awaitRollUps(ctx); err != nil {
		return 0, err
	}
	if err := s.rewriteRedis(ctx); err != nil {
		return 0, err
	}
	after, err := s.redisInfo(ctx, "memory", "used_memory")
	return float64(after-before) / float64(set.count()), err
}

// awaitRollUps waits until the use of keys is where it stays, so that none of that is done while something is measured. The
// pod that is measured does it, by itself. It gets no requests meanwhile.
func (s *stack) awaitRollUps(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, rollUpTime)
	defer cancel()
	return poll(ctx, "the use of keys is rolled up", func() (bool, error) {
		var waiting bool
		err := s.pool.QueryRow(ctx, "SELECT EXISTS (SELECT FROM key_usage_batches)").Scan(&waiting)
		return !waiting, err
	})
}

// rewriteRedis makes Redis rewrite its file now, not while something is measured, and waits for that.
func (s *stack) rewriteRedis(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, rewriteTime)
	defer cancel()
	_ = s.redis.BgRewriteAOF(ctx).Err() // it may be doing so already
	return poll(ctx, "Redis has written its file", func() (bool, error) {
		running, err := s.redisInfo(ctx, "persistence", "aof_rewrite_in_progress")
		if err != nil {
			return false, err
		}
		scheduled, err := s.redisInfo(ctx, "persistence", "aof_rewrite_scheduled")
		return running+scheduled == 0, err
	})
}
