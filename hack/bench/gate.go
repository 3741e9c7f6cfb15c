package main

import (
	"bytes"
	"context"
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
	script, err := s.newScriptLoad(ctx)
	if err != nil {
		return err
	}
	bareLoad, turn := s.overviewLoad(address), turnTime(duration, gateTurns)
	api := &contender{run: func(ctx context.Context) (sample, error) {
		return s.during(ctx, ours, turn, processAPI, processRedis, processPostgres)
	}}
	bare := &contender{run: func(ctx context.Context) (sample, error) { return s.during(ctx, bareLoad, turn, processBare) }}
	takes := &contender{run: func(ctx context.Context) (sample, error) { return script.call(ctx, turn) }}
	if err := takeTurns(ctx, scatteredTurns, api, bare, takes); err != nil {
		return err
	}
	relaxed, err := s.atHalf(ctx, ours, api.turns, turn)
	if err != nil {
		return err
	}
	r.medians(fmt.Sprintf("GET overview of %d bytes", size), api.turns)
	r.medians("  the same at half the rate", relaxed)
	r.medians("  bare fasthttp, the same bytes", bare.turns)
	r.medians(fmt.Sprintf("  keys in the script, %d a call, by redis-benchmark", keysPerCall), takes.turns)
	r.judge(verdict{
		what: "GET: CPU of API + Redis / (bare fasthttp + script)", unit: "×", target: 1.3, measured: overhead(api.turns, bare.turns, takes.turns),
	})
	return nil
}

// overhead is what the API and Redis take of the processors, in terms of what the bare server and the bare script do: the
// median of the turns' ratios.
func overhead(api, bare, takes series) float64 {
	var ratios []float64
	for turn := range api {
		least := bare[turn].micros(processBare) + takes[turn].micros(processRedis)
		ratios = append(ratios, api[turn].micros(processAPI, processRedis)/least)
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
	address, err = s.startRole(ctx, roleBare, "http", http.DefaultClient, file)
	return address, len(saved.body), err
}
