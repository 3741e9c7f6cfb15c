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
	m, err := s.prepareGate(ctx, duration)
	if err != nil {
		return err
	}
	if err := m.script.judgeMemory(ctx, r); err != nil {
		return err
	}
	before, err := s.writingTransactions(ctx)
	if err != nil {
		return err
	}
	if err := m.take(ctx, s); err != nil {
		return err
	}
	after, err := s.writingTransactions(ctx)
	if err != nil {
		return err
	}
	relaxed, err := s.atHalf(ctx, m.ours, m.anywhere.api.turns, m.turn)
	if err != nil {
		return err
	}
	m.report(r, relaxed)
	r.notef("GET: %d transactions wrote to PostgreSQL during %d requests with %d keys: last use and usage are written in batches.",
		after-before, m.divided.api.turns.operations()+m.anywhere.api.turns.operations(), len(s.keys))
	return nil
}

// gateMeasurement is what the API is compared with, twice: with all processors for all, which is judged, and with processors
// divided between what answers and who asks.
type gateMeasurement struct {
	ours   load
	size   int // of the document
	script *scriptLoad
	turn   time.Duration

	api, plain        *allocator
	divided, anywhere *comparison
}

func (s *stack) prepareGate(ctx context.Context, duration time.Duration) (*gateMeasurement, error) {
	ours, err := s.warmOverviews(ctx, duration)
	if err != nil {
		return nil, err
	}
	address, size, err := s.startBare(ctx)
	if err != nil {
		return nil, err
	}
	script, err := s.newScriptLoad(ctx)
	if err != nil {
		return nil, err
	}
	bare, turn := s.overviewLoad(address), turnTime(duration, gateTurns)
	m := &gateMeasurement{ours: ours, size: size, script: script, turn: turn}
	m.api = &allocator{stack: s, process: processAPI, turn: func(ctx context.Context) (sample, error) {
		return s.during(ctx, ours, turn, processAPI, processRedis, processPostgres)
	}}
	m.plain = &allocator{stack: s, process: processBare, turn: func(ctx context.Context) (sample, error) {
		return s.during(ctx, bare, turn, processBare)
	}}
	m.divided, m.anywhere = m.compared(), m.compared()
	return m, nil
}

func (m *gateMeasurement) take(ctx context.Context, s *stack) error {
	free, err := s.divideProcessors(processAPI, processBare, processRedis)
	if err != nil {
		return err
	}
	if err := errors.Join(m.divided.take(ctx, gateTurns), free()); err != nil {
		return err
	}
	return m.anywhere.take(ctx, scatteredTurns)
}

func (m *gateMeasurement) report(r *report, relaxed series) {
	r.medians(fmt.Sprintf("GET overview of %d bytes", m.size), m.anywhere.api.turns)
	r.medians("  the same at half the rate", relaxed)
	r.medians("  bare fasthttp, the same bytes", m.anywhere.bare.turns)
	r.medians(fmt.Sprintf("  keys in the script, %d a call, by %s", keysPerCall, m.script.by()), m.anywhere.script.turns)
	r.medians(fmt.Sprintf("  GET of a record, %d in a pipeline", keysPerCall), m.anywhere.get.turns)
	r.medians("GET overview, processors divided", m.divided.api.turns)
	r.medians("  bare fasthttp, the same bytes", m.divided.bare.turns)
	r.judge(verdict{what: "GET: CPU of API + Redis / (bare fasthttp + script)", unit: "×", target: 1.3, measured: m.anywhere.overhead()})
	r.judge(verdict{what: "script: Redis' CPU per key / that of a GET", unit: "×", target: 4, measured: m.anywhere.scriptCost()})
	r.judge(verdict{what: "GET: p99 at half the rate", unit: " ms", target: 5, measured: relaxed.median(percentileOf(0.99))})
	r.notef("GET: CPU of API + Redis / (bare fasthttp + script), processors divided: %.2f×.", m.divided.overhead())
	r.notef("GET: p99 at half the rate over the requests of all turns, also those in which the machine stood still: %.2f ms.", relaxed.pooled(0.99))
	r.notef("GET: the API's process made %.2f allocations per request, that of bare fasthttp %.2f: %.2f more.",
		m.api.each(), m.plain.each(), m.api.each()-m.plain.each())
}

// comparison has turns of the API and of what the least would cost.
type comparison struct{ api, bare, script, get *contender }

func (m *gateMeasurement) compared() *comparison {
	return &comparison{
		api: &contender{run: m.api.run}, bare: &contender{run: m.plain.run},
		script: &contender{run: func(ctx context.Context) (sample, error) { return m.script.call(ctx, m.turn) }},
		get:    &contender{run: func(ctx context.Context) (sample, error) { return m.script.get(ctx, m.turn) }},
	}
}

func (c *comparison) take(ctx context.Context, turns int) error {
	return takeTurns(ctx, turns, c.api, c.bare, c.script, c.get)
}

// overhead is what the API and Redis take of the processors, in terms of what the bare server and the bare script do.
func (c *comparison) overhead() float64 {
	return c.median(func(turn int) float64 {
		least := c.bare.turns[turn].micros(processBare) + c.script.turns[turn].micros(processRedis)
		return c.api.turns[turn].micros(processAPI, processRedis) / least
	})
}

// scriptCost is what a key in the script takes of Redis, in terms of a GET.
func (c *comparison) scriptCost() float64 {
	return c.median(func(turn int) float64 {
		return c.script.turns[turn].micros(processRedis) / c.get.turns[turn].micros(processRedis)
	})
}

// median is of a ratio within each turn.
func (c *comparison) median(ratio func(turn int) float64) float64 {
	var ratios []float64
	for turn := range c.api.turns {
		ratios = append(ratios, ratio(turn))
	}
	return median(ratios)
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
