package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// turns is how often the things that are compared take turns.
const turns = 3

// processBare is the baseline's server.
const processBare = roleBare

// measureGate compares an authenticated, rate-limited GET with a bare server plus the bare script.
func measureGate(ctx context.Context, s *stack, duration time.Duration, r *report) error {
	if err := s.prepareAPI(ctx); err != nil {
		return err
	}
	path := "/v1/exam-prep/" + examKey + "/overview"
	ours := s.overviewLoad(s.api, path)
	// Long enough for every key's record to be in Redis.
	if _, _, err := ours.drive(ctx, max(time.Second, duration/5)); err != nil {
		return err
	}
	address, size, err := s.startBare(ctx, path)
	if err != nil {
		return err
	}
	bare := s.overviewLoad(address, path)
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
	var api, plain, called, got sample
	for range turns {
		for _, turn := range []struct {
			total *sample
			run   func() (sample, error)
		}{
			{&api, func() (sample, error) {
				return s.during(ctx, ours, duration/turns, processAPI, processRedis, processPostgres)
			}},
			{&plain, func() (sample, error) { return s.during(ctx, bare, duration/turns, processBare) }},
			{&called, func() (sample, error) { return script.call(ctx, duration/turns) }},
			{&got, func() (sample, error) { return script.get(ctx, duration/turns) }},
		} {
			measured, err := turn.run()
			if err != nil {
				return err
			}
			turn.total.add(measured)
		}
	}
	after, err := s.writingTransactions(ctx)
	if err != nil {
		return err
	}
	r.notef("GET: %d transactions wrote to PostgreSQL during %d requests with %d keys: last use and usage are written in batches.",
		after-before, api.operations, len(s.keys))
	half := ours
	half.rate = api.rate() / 2
	relaxed, err := s.during(ctx, half, duration/2, processAPI, processRedis, processPostgres)
	if err != nil {
		return err
	}
	r.row(fmt.Sprintf("GET overview of %d bytes", size), &api)
	r.row("  the same at half the rate", &relaxed)
	r.row("  bare fasthttp, the same bytes", &plain)
	r.row(fmt.Sprintf("  keys in the script, %d a call, by %s", keysPerCall, script.by()), &called)
	r.row(fmt.Sprintf("  GET of a record, %d in a pipeline", keysPerCall), &got)
	r.judge(verdict{
		what: "GET: CPU of API + Redis / (bare fasthttp + script)", unit: "×", target: 1.3,
		measured: api.micros(processAPI, processRedis) / (plain.micros(processBare) + called.micros(processRedis)),
	})
	r.judge(verdict{
		what: "script: Redis' CPU per key / that of a GET", unit: "×", target: 4,
		measured: called.micros(processRedis) / got.micros(processRedis),
	})
	r.judge(verdict{what: "GET: p99 at half the rate", unit: " ms", target: 5, measured: relaxed.percentile(0.99).Seconds() * 1000})
	return nil
}

// writingTransactions is how many transactions of this PostgreSQL ever wrote something: only those are numbered.
func (s *stack) writingTransactions(ctx context.Context) (n int64, err error) {
	err = s.pool.QueryRow(ctx, "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint").Scan(&n)
	return n, err
}

// overviewLoad asks for the same document with all keys in turn.
func (s *stack) overviewLoad(address, path string) load {
	requests := make([][]byte, len(s.keys))
	for i, key := range s.keys {
		requests[i] = getRequest(address, path, key)
	}
	// A step that has no divisor in common with the number of keys: connections do not meet at the same keys.
	const step = 7919
	return load{address: address, request: func(connection, n int) []byte {
		return requests[(connection*step+n)%len(requests)]
	}}
}

// startBare starts a server that sends what the API sends: one answer's header lines and body.
func (s *stack) startBare(ctx context.Context, path string) (address string, size int, err error) {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.api+path, http.NoBody)
	if err != nil {
		return "", 0, err
	}
	request.Header.Set("Authorization", "Bearer "+s.keys[0])
	request.Header.Set("Accept-Encoding", "identity")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", 0, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return "", 0, err
	}
	if response.StatusCode != http.StatusOK {
		return "", 0, &statusError{response.StatusCode, string(body)}
	}
	var head strings.Builder
	lines := bufio.NewWriter(&head)
	for name, values := range response.Header {
		for _, value := range values {
			fmt.Fprintf(lines, "%s: %s\n", name, value)
		}
	}
	fmt.Fprintln(lines)
	_ = lines.Flush() // a strings.Builder takes everything
	if err := s.dir.WriteFile("answer", append([]byte(head.String()), body...), 0o644); err != nil {
		return "", 0, err
	}
	address, err = s.startRole(ctx, roleBare, "http", http.DefaultClient, s.dir.Path("answer"))
	return address, len(body), err
}
