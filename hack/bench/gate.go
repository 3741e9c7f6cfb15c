package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"time"
)

// processBare is the baseline's server.
const processBare = roleBare

// overviewPath is the document that the gate's measurements ask for.
const overviewPath = "/v1/exam-prep/" + examKey + "/overview"

// measureGate compares an authenticated, rate-limited GET with a bare server plus the bare script.
func measureGate(ctx context.Context, s *stack, duration time.Duration, r *report) error {
	ours, err := s.warmOverviews(ctx, duration)
	if err != nil {
		return err
	}
	address, size, err := s.startBare(ctx)
	if err != nil {
		return err
	}
	bare := s.overviewLoad(address)
	script, err := s.newScriptLoad(ctx)
	if err != nil {
		return err
	}
	if err := script.judgeMemory(ctx, r); err != nil {
		return err
	}
	before, err := s.writingTransactions(ctx)
	if err != nil {
		return err
	}
	turn := turnTime(duration, gateTurns)
	api := &allocator{stack: s, process: processAPI, turn: func(ctx context.Context) (sample, error) {
		return s.during(ctx, ours, turn, processAPI, processRedis, processPostgres)
	}}
	plain := &allocator{stack: s, process: processBare, turn: func(ctx context.Context) (sample, error) {
		return s.during(ctx, bare, turn, processBare)
	}}
	first, second := &contender{run: api.run}, &contender{run: plain.run}
	called := &contender{run: func(ctx context.Context) (sample, error) { return script.call(ctx, turn) }}
	got := &contender{run: func(ctx context.Context) (sample, error) { return script.get(ctx, turn) }}
	free, err := s.divideProcessors(processAPI, processBare, processRedis)
	if err != nil {
		return err
	}
	if err := errors.Join(takeTurns(ctx, gateTurns, first, second, called, got), free()); err != nil {
		return err
	}
	after, err := s.writingTransactions(ctx)
	if err != nil {
		return err
	}
	relaxed, err := s.atHalf(ctx, ours, first.turns, turn)
	if err != nil {
		return err
	}
	r.medians(fmt.Sprintf("GET overview of %d bytes", size), first.turns)
	r.medians("  the same at half the rate", relaxed)
	r.medians("  bare fasthttp, the same bytes", second.turns)
	r.medians(fmt.Sprintf("  keys in the script, %d a call, by %s", keysPerCall, script.by()), called.turns)
	r.medians(fmt.Sprintf("  GET of a record, %d in a pipeline", keysPerCall), got.turns)
	judgeGate(r, first.turns, second.turns, called.turns, got.turns)
	r.judge(verdict{what: "GET: p99 at half the rate", unit: " ms", target: 5, measured: relaxed.median(percentileOf(0.99))})
	r.notef("GET: p99 at half the rate over the requests of all turns, also those in which the machine stood still: %.2f ms.", relaxed.pooled(0.99))
	r.notef("GET: the API's process made %.2f allocations per request, that of bare fasthttp %.2f: %.2f more.",
		api.each(), plain.each(), api.each()-plain.each())
	r.notef("GET: %d transactions wrote to PostgreSQL during %d requests with %d keys: last use and usage are written in batches.",
		after-before, first.turns.operations(), len(s.keys))
	return nil
}

// atHalf sends a load at half the rate that the same reached when nothing held it back.
func (s *stack) atHalf(ctx context.Context, l load, whole series, turn time.Duration) (series, error) {
	l.rate = whole.median((*sample).rate) / 2
	half := &contender{run: func(ctx context.Context) (sample, error) {
		return s.during(ctx, l, turn, processAPI, processRedis, processPostgres)
	}}
	err := takeTurns(ctx, gateTurns, half)
	return half.turns, err
}

// judgeGate weighs CPU against CPU, turn by turn.
func judgeGate(r *report, api, plain, called, got series) {
	whole, script := make([]float64, gateTurns), make([]float64, gateTurns)
	for i := range gateTurns {
		key := called[i].micros(processRedis)
		whole[i] = api[i].micros(processAPI, processRedis) / (plain[i].micros(processBare) + key)
		script[i] = key / got[i].micros(processRedis)
	}
	r.judge(verdict{what: "GET: CPU of API + Redis / (bare fasthttp + script)", unit: "×", target: 1.3, measured: median(whole)})
	r.judge(verdict{what: "script: Redis' CPU per key / that of a GET", unit: "×", target: 4, measured: median(script)})
}

// warmOverviews starts the API and has every key's record in Redis.
func (s *stack) warmOverviews(ctx context.Context, duration time.Duration) (load, error) {
	if err := s.prepareAPI(ctx); err != nil {
		return load{}, err
	}
	ours := s.overviewLoad(s.api)
	once := ours
	once.request = func(connection, n int) []byte {
		if key := n*connections + connection; key < len(s.keys) {
			return ours.request(0, key)
		}
		return nil
	}
	if _, _, err := once.drive(ctx, startTime); err != nil {
		return load{}, err
	}
	_, _, err := ours.drive(ctx, max(time.Second, duration/5))
	return ours, err
}

// writingTransactions is how many transactions of this PostgreSQL ever wrote something: only those are numbered.
func (s *stack) writingTransactions(ctx context.Context) (n int64, err error) {
	err = s.pool.QueryRow(ctx, "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint").Scan(&n)
	return n, err
}

// overviewLoad asks for the same document with all keys in turn.
func (s *stack) overviewLoad(address string) load {
	requests := make([][]byte, len(s.keys))
	for i, key := range s.keys {
		requests[i] = getRequest(address, overviewPath, key)
	}
	// A step that has no divisor in common with the number of keys: connections do not meet at the same keys.
	const step = 7919
	return load{addresses: []string{address}, request: func(connection, n int) []byte {
		return requests[(connection*step+n)%len(requests)]
	}}
}

// An answer is what a server sends: its header and body.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// ask asks a server for the overview, with that key.
func ask(ctx context.Context, address, key string) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+overviewPath, http.NoBody)
	if err != nil {
		return answer{}, err
	}
	request.Header.Set("Authorization", "Bearer "+key)
	request.Header.Set("Accept-Encoding", "identity")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return answer{}, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return answer{response.StatusCode, response.Header, body}, err
}

// saveAnswer asks the API once and leaves the answer in a file: header lines, an empty line, the body.
func (s *stack) saveAnswer(ctx context.Context) (file string, saved answer, err error) {
	saved, err = ask(ctx, s.api, s.keys[0])
	if err != nil {
		return "", saved, err
	}
	if saved.status != http.StatusOK {
		return "", saved, &statusError{saved.status, string(saved.body)}
	}
	var text bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(saved.header)) {
		for _, value := range saved.header[name] {
			fmt.Fprintf(&text, "%s: %s\n", name, value)
		}
	}
	fmt.Fprintln(&text)
	text.Write(saved.body)
	return s.dir.Path("answer"), saved, s.dir.WriteFile("answer", text.Bytes(), 0o644)
}

// startBare starts a server that sends what the API sends: one answer's header lines and body.
func (s *stack) startBare(ctx context.Context) (address string, size int, err error) {
	file, saved, err := s.saveAnswer(ctx)
	if err != nil {
		return "", 0, err
	}
	metrics, err := s.ports.Address(ctx, roleBare+"-metrics")
	if err != nil {
		return "", 0, err
	}
	s.metrics[processBare] = metrics
	address, err = s.startRole(ctx, roleBare, "http", http.DefaultClient, file, metrics)
	return address, len(saved.body), err
}
