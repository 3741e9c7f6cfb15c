package command

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"examprep.dev/server/keys"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
	"examprep.dev/server/testkit/race"
)

const (
	// hostileVariable sets how long hostile clients attack (make soak: 10 minutes), hostileSeed with which requests.
	hostileVariable = "COMMAND_TEST_HOSTILE"
	hostileSeed     = "COMMAND_TEST_SEED"
	shortAttack     = 10 * time.Second

	hostileExam  = "xx-memory-0"
	hostilePaper = hostileExam + "-2023"
	// waveEach is how many requests each attacker sends in one wave.
	waveEach = 4
	// mostGrowth is the memory, in bytes, that a pod takes for the requests of one key on 200 connections.
	mostGrowth = 150 << 20
	// maxErrorBody is the maximum of an error's body, in bytes.
	maxErrorBody = 8 << 10
)

// TestHostileClientsHarmNobody: hostile clients of eight accounts and without a key send the worst requests that chance finds, and
// leave 4,000 connections open. The pod stays within the chart's memory, and each request of healthy clients succeeds.
func TestHostileClientsHarmNobody(t *testing.T) {
	testkit.Soak(t)
	s := newSiege(t, 8)
	s.attack(attack{attackers: 200, kept: 20, duration: testkit.Duration(t, hostileVariable, shortAttack)})
	s.judge(chartLimit)
}

// TestOneKeyHarmsNobody: the owner of one key sends 8,000 of the worst requests on 200 connections. A rate limit, which would stop
// most of them, does not act. The pod grows little, and each request of another key succeeds.
func TestOneKeyHarmsNobody(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector needs several times the memory")
	}
	if os.Getenv(cgroupVariable) == "" {
		testkit.Soak(t)
	}
	s := newSiege(t, 1)
	s.attack(attack{attackers: 100, kept: 1, keyed: true, requests: 8000, duration: testkit.Patience})
	s.judge(mostGrowth)
}

// siege is a pod in a memory cgroup of the chart's limit, hostile clients, and healthy ones.
type siege struct {
	t       *testing.T
	env     *env
	pod     *testkit.Pod
	group   memoryCgroup
	seed    uint64
	hostile []string // keys
	healthy string   // the key of another account
	attempt string   // of the first hostile key
	bodies  hostileBodyCache

	served  atomic.Int64
	played  atomic.Int64
	slowest atomic.Int64 // healthy request, in nanoseconds

	mu       sync.Mutex
	shapes   map[int]hostileShape // what each attacker plays
	statuses map[int]int          // of hostile requests
	before   int64                // resident bytes
}

// newSiege starts a pod with production's time limits. No key's rate limit acts.
func newSiege(t *testing.T, accounts int) *siege {
	t.Helper()
	seed := testkit.Size(t, hostileSeed, time.Now().UnixNano())
	t.Logf("%s=%d", hostileSeed, seed)
	s := &siege{t: t, env: newEnv(t), seed: uint64(seed), shapes: make(map[int]hostileShape), statuses: make(map[int]int)}
	endless := keys.TierSpec{Name: "endless", Requests: 10_000_000, Period: time.Second, Accounts: []string{"healthy"}}
	for i := range accounts {
		account := fmt.Sprintf("hostile-%d", i)
		endless.Accounts = append(endless.Accounts, account)
		s.hostile = append(s.hostile, s.env.newKey(account))
	}
	s.healthy = s.env.newKey("healthy")
	check.NoError(t, s.env.store.ApplyTier(t.Context(), endless))
	publishLongPapers(t, s.env, 1)
	// Proxies and traces would record all that is sent, so the pod has none.
	s.env.Env = append(s.env.Env, asCommand+"="+asProduction, "GOMEMLIMIT="+strconv.Itoa(goLimit), "GOMAXPROCS=1",
		"EXAMPREP_LOG_LEVEL=info", "OTEL_EXPORTER_OTLP_ENDPOINT=", "DATABASE_URL="+s.env.Database, "REDIS_URL="+s.env.Cache)
	s.group = newMemoryCgroup(t, chartLimit)
	s.env.Path = s.group.wrap(t, s.env.Path)
	s.pod = s.env.start("api")
	s.pod.MayFail = true // it is killed at the end of the test
	s.attempt = s.open(s.hostile[0])
	client := new(http.Client)
	for range 20 { // warms what each request uses
		s.serve(client)
	}
	return s
}

// attack is what hostile clients do.
type attack struct {
	attackers int           // connections that send requests at once
	kept      int           // how many more connections each attacker leaves open behind it
	keyed     bool          // all requests have a valid key
	requests  int           // after how many it ends; 0: no limit
	duration  time.Duration // after which it ends
}

// attack lets hostile clients attack. Healthy clients send requests all the time.
func (s *siege) attack(a attack) {
	s.t.Helper()
	s.before = restartPeakMemory(s.t, s.pod.PID())
	ctx, cancel := context.WithTimeout(s.t.Context(), a.duration)
	defer cancel()
	var wait sync.WaitGroup
	for i := range a.attackers {
		wait.Go(func() { s.besiege(ctx, a, i) })
	}
	healthy, stop := context.WithCancel(s.t.Context())
	var served sync.WaitGroup
	for i := range 4 {
		served.Go(func() {
			client := &http.Client{Transport: &http.Transport{DisableKeepAlives: i%2 == 0}}
			for healthy.Err() == nil && !s.t.Failed() {
				s.serve(client)
			}
		})
	}
	wait.Wait()
	stop()
	served.Wait()
}

// besiege plays one shape after the other. Connections of clients that stay are open until so many later ones of the same attacker
// are.
func (s *siege) besiege(ctx context.Context, a attack, attacker int) {
	chance := rand.New(rand.NewPCG(s.seed, uint64(attacker)))
	var open []net.Conn
	defer func() {
		for _, conn := range open {
			reset(conn)
		}
	}()
	for ctx.Err() == nil && !s.t.Failed() {
		if number := s.played.Add(1); a.requests > 0 && number > int64(a.requests) {
			return
		}
		shape := chooseShape(chance)
		if chance.IntN(8) > 0 { // most attackers do the same thing at once
			shape = shape.of(waveShape(s.seed, s.played.Load()/int64(waveEach*a.attackers)))
		}
		if a.keyed {
			shape.key = "valid"
		}
		s.mu.Lock()
		s.shapes[attacker] = shape
		s.mu.Unlock()
		conn := s.play(ctx, shape, s.hostile[chance.IntN(len(s.hostile))])
		if conn == nil {
			continue
		}
		if open = append(open, conn); len(open) > a.kept {
			reset(open[0])
			open = open[1:]
		}
	}
}

// reset ends a connection without the state that the kernel keeps of one that is closed.
func reset(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

// play does what a shape says. It returns the connection if the client stays. It ignores errors of the network: the pod may refuse a
// hostile client and close its connection.
func (s *siege) play(ctx context.Context, shape hostileShape, key string) net.Conn {
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, byte(shape.address))}, Timeout: testkit.Patience}
	conn, err := dialer.DialContext(ctx, "tcp", s.pod.Address)
	if err != nil {
		s.played.Add(-1)
		return nil
	}
	keep := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer keep()
	tcp, _ := conn.(*net.TCPConn)
	if shape.conduct == ignores {
		_ = tcp.SetReadBuffer(4 << 10)
	}
	if shape.write(conn, &s.bodies, key, s.attempt) != nil && shape.conduct != reads {
		reset(conn)
		return nil
	}
	switch shape.conduct {
	case reads:
		_ = tcp.CloseWrite()
		s.readAnswers(conn, shape)
		reset(conn)
		return nil
	case resets:
		reset(conn)
		return nil
	case halfOpen:
		_ = tcp.CloseWrite()
	}
	return conn
}

// readAnswers reads what the pod answers until it ends the connection. No answer is an internal error, and no error is long.
func (s *siege) readAnswers(conn net.Conn, shape hostileShape) {
	reader := bufio.NewReader(conn)
	for {
		answer, err := http.ReadResponse(reader, nil)
		if err != nil {
			return
		}
		size, _ := io.Copy(io.Discard, answer.Body)
		_ = answer.Body.Close()
		s.mu.Lock()
		s.statuses[answer.StatusCode]++
		s.mu.Unlock()
		isError := answer.StatusCode >= http.StatusBadRequest
		if answer.StatusCode >= http.StatusInternalServerError && answer.StatusCode != http.StatusServiceUnavailable || isError && size > maxErrorBody {
			s.t.Errorf("%s=%d: a request is answered %d with %d bytes: %s", hostileSeed, s.seed, answer.StatusCode, size, shape)
		}
	}
}

// serve opens an attempt, reads questions and submits, as a healthy client.
func (s *siege) serve(client *http.Client) {
	var opened struct {
		AttemptID string `json:"attempt_id"`
	}
	body := s.post(client, s.healthy, "open", `{"paper_id":"`+hostilePaper+`","question_limit":1}`)
	if body == nil || json.Unmarshal(body, &opened) != nil {
		return
	}
	s.post(client, s.healthy, "questions", `{"paper_id":"`+hostilePaper+`","question_limit":1}`)
	s.post(client, s.healthy, "submit", `{"attempt_id":"`+opened.AttemptID+`","answers":{"1:1":"B"}}`)
}

// open returns the id of a new attempt.
func (s *siege) open(key string) string {
	s.t.Helper()
	var opened struct {
		AttemptID string `json:"attempt_id"`
	}
	check.NoError(s.t, json.Unmarshal(s.post(new(http.Client), key, "open", `{"paper_id":"`+hostilePaper+`"}`), &opened))
	return opened.AttemptID
}

// post returns the body of the response. A response that is not 200 fails the test.
func (s *siege) post(client *http.Client, key, operation, body string) []byte {
	began := time.Now()
	status, content, err := s.send(client, key, operation, body)
	took := int64(time.Since(began))
	slowest := s.slowest.Load()
	for took > slowest && !s.slowest.CompareAndSwap(slowest, took) {
		slowest = s.slowest.Load()
	}
	if err != nil || status != http.StatusOK {
		s.t.Errorf("%s=%d: after %d requests, POST %s of %s is answered %d %.300s (%v), during these requests:\n%s",
			hostileSeed, s.seed, s.served.Load(), operation, body, status, content, err, s.underWay())
		return nil
	}
	s.served.Add(1)
	return content
}

func (s *siege) send(client *http.Client, key, operation, body string) (status int, content []byte, err error) {
	address := "http://" + s.pod.Address + "/v1/exam-prep/" + hostileExam + "/mock-exams/" + operation
	request, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, address, strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	request.Header.Set("Authorization", "Bearer "+key)
	request.Header.Set("Content-Type", "application/json")
	response, err := client.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = response.Body.Close() }()
	content, err = io.ReadAll(response.Body)
	return response.StatusCode, content, err
}

// underWay returns the requests that hostile clients play, one in a line.
func (s *siege) underWay() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var lines []string
	for _, shape := range s.shapes {
		lines = append(lines, shape.String())
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// judge fails unless the pod lives, and has grown by less than so many bytes and stayed within the chart's limit.
func (s *siege) judge(growth int64) {
	s.t.Helper()
	if !testkit.Answers(s.pod.Health, "/readyz") {
		s.t.Errorf("%s=%d: the pod is not ready", hostileSeed, s.seed)
	}
	peak := peakMemory(s.t, s.pod.PID())
	s.t.Logf("%d requests of healthy clients, the slowest took %s; %d hostile connections, and the answers that they read, by status: %v",
		s.served.Load(), time.Duration(s.slowest.Load()).Round(time.Millisecond), s.played.Load(), s.statuses)
	s.t.Logf("memory: %d MiB before, peak %d MiB", s.before>>20, peak>>20)
	if peak-s.before > growth || peak > chartLimit {
		s.t.Errorf("%s=%d: the pod grew from %d to %d MiB, want at most %d more", hostileSeed, s.seed, s.before>>20, peak>>20, growth>>20)
	}
	s.group.check(s.t)
}
