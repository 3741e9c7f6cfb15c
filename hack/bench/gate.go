package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	// processBare is the bare fasthttp server.
	processBare = roleBare
	// overviewPath and questionsPath are what the gate's measurements ask for.
	overviewPath  = "/v1/exam-prep/" + examKey + "/overview"
	questionsPath = "/v1/exam-prep/" + examKey + "/mock-exams/questions"
	// mixEvery is how many requests of a connection there are to one POST, in the mixed load.
	mixEvery = 10
)

// questionsBody asks for the first questions of the paper.
func questionsBody() []byte { return []byte(`{"paper_id":"` + paperID + `","learner_id":"learner-1"}`) }

// measureGate compares authenticated, rate-limited requests with a bare server and bare takes of a token.
func measureGate(ctx context.Context, s *stack, duration time.Duration, r *report) error {
	gets, err := s.warmOverviews(ctx, duration)
	if err != nil {
		return err
	}
	address, err := s.startBare(ctx)
	if err != nil {
		return err
	}
	script, err := s.newTakeLoad(ctx)
	if err != nil {
		return err
	}
	turn := turnTime(duration, gateTurns)
	api := func(l load) *contender {
		return &contender{run: func(ctx context.Context) (sample, error) {
			return s.during(ctx, l, turn, processAPI, processRedis, processPostgres)
		}}
	}
	bare := func(l load) *contender {
		return &contender{run: func(ctx context.Context) (sample, error) { return s.during(ctx, l, turn, processBare) }}
	}
	apiGet, apiOne, apiMix := api(gets), api(s.oneKeyLoad(s.api)), api(s.mixedLoad(s.api))
	bareGet, bareMix := bare(s.overviewLoad(address)), bare(s.mixedLoad(address))
	takes := &contender{run: func(ctx context.Context) (sample, error) { return script.call(ctx, turn) }}
	if err := takeTurns(ctx, scatteredTurns, apiGet, bareGet, takes, bareMix, apiMix, apiOne); err != nil {
		return err
	}
	relaxed, err := s.atHalf(ctx, gets, apiGet.turns, turn)
	if err != nil {
		return err
	}
	r.medians("GET overview, 4 KB", apiGet.turns)
	r.medians("  the same at half the rate", relaxed)
	r.medians(fmt.Sprintf("  the same, one key of a raised tier, %d connections", connections), apiOne.turns)
	r.use("GET", apiGet.turns, processAPI, processRedis)
	r.medians("  bare fasthttp, the same bytes", bareGet.turns)
	r.medians("mixed: one request in ten is a POST of questions", apiMix.turns)
	r.medians("  bare fasthttp, mixed alike", bareMix.turns)
	r.medians(fmt.Sprintf("one take per key, %d keys a call, by redis-benchmark", keysPerCall), takes.turns)
	r.judge(verdict{
		what: "gate: GET, CPU of API + Redis / (bare fasthttp + takes)", unit: "×", bar: 1.25, goal: 1.1,
		measured: overhead(apiGet.turns, bareGet.turns, takes.turns),
	})
	r.judge(verdict{
		what: "gate: mixed, CPU of API + Redis / (bare fasthttp + takes)", unit: "×", bar: 1.35, goal: 1.2,
		measured: overhead(apiMix.turns, bareMix.turns, takes.turns),
	})
	return nil
}

// overhead returns the median of the turns' ratios: the CPU of the API and Redis, over that of the bare server and the takes.
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

// warmOverviews starts the API and uses each key once, then all of them for a while.
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
	return load{addresses: []string{address}, request: func(connection, n int) []byte {
		return requests[keyInTurn(connection, n, len(requests))]
	}}
}

// oneKeyLoad is overviewLoad with one key on all connections.
func (s *stack) oneKeyLoad(address string) load {
	request := getRequest(address, overviewPath, s.keys[0])
	return load{addresses: []string{address}, request: func(int, int) []byte { return request }}
}

// keyInTurn returns which key a connection uses. The step has no divisor in common with the number of keys, so connections do
// not meet at the same keys.
func keyInTurn(connection, n, keys int) int {
	const step = 7919
	return (connection*step + n) % keys
}

// mixedLoad is overviewLoad with a POST of questions as every tenth request of each connection.
func (s *stack) mixedLoad(address string) load {
	gets := s.overviewLoad(address)
	posts := make([][]byte, len(s.keys))
	for i, key := range s.keys {
		posts[i] = postRequest(address, questionsPath, key, questionsBody())
	}
	return load{addresses: gets.addresses, request: func(connection, n int) []byte {
		if (n+connection)%mixEvery == 0 {
			return posts[keyInTurn(connection, n, len(posts))]
		}
		return gets.request(connection, n)
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
	return send(ctx, http.MethodGet, "http://"+address+overviewPath, key, nil)
}

func send(ctx context.Context, method, url, key string, body []byte) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	request.Header.Set("Authorization", "Bearer "+key)
	request.Header.Set("Accept-Encoding", "identity")
	if len(body) > 0 {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return answer{}, err
	}
	defer response.Body.Close()
	got, err := io.ReadAll(response.Body)
	return answer{response.StatusCode, response.Header, got}, err
}

// save writes an answer of the API to a file: header lines, an empty line, the body.
func (s *stack) save(name string, a answer) (file string, err error) {
	if a.status != http.StatusOK {
		return "", &statusError{a.status, string(a.body)}
	}
	var text bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(a.header)) {
		for _, value := range a.header[name] {
			fmt.Fprintf(&text, "%s: %s\n", name, value)
		}
	}
	fmt.Fprintln(&text)
	text.Write(a.body)
	return s.dir.Path(name), s.dir.WriteFile(name, text.Bytes(), 0o644)
}

// startBare starts a server that sends what the API sends for a GET of the overview and for a POST of questions.
func (s *stack) startBare(ctx context.Context) (address string, err error) {
	var files []string
	for _, asked := range []struct {
		method, path string
		body         []byte
	}{{http.MethodGet, overviewPath, nil}, {http.MethodPost, questionsPath, questionsBody()}} {
		got, err := send(ctx, asked.method, "http://"+s.api+asked.path, s.keys[0], asked.body)
		if err != nil {
			return "", err
		}
		file, err := s.save("answer-"+strings.ToLower(asked.method)+strconv.Itoa(len(files)), got)
		if err != nil {
			return "", err
		}
		files = append(files, file)
	}
	return s.startRole(ctx, roleBare, "http", http.DefaultClient, files...)
}
