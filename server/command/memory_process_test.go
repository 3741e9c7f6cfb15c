package command

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"examprep.dev/server/catalog/catalogtest"
	"examprep.dev/server/memory"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
	"examprep.dev/server/testkit/race"
)

const (
	chartLimit  = 512 << 20 // of the chart's memory limit, in bytes
	goLimit     = chartLimit / 100 * 85
	memoryExams = 40
)

// TestAPIPodStaysWithinTheChartsMemory loads a pod with 100,000 keys and 80 MB of papers. It sends 60 submissions of many names, 100
// with a long name whose answers it does not read, and 1,000 that lack one byte. Then it opens 4,000 idle connections, 2,000 silent
// ones, and 2,000 that send one byte. The pod has the chart's GOMEMLIMIT. It must hold most of the bodies that it may, answer all
// other requests, and stay below its memory limit.
func TestAPIPodStaysWithinTheChartsMemory(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector needs several times the memory")
	}
	if os.Getenv(cgroupVariable) == "" {
		testkit.Soak(t)
	}
	const idle, silent = 4000, 2000
	s := newEnv(t)
	s.defaultTier(1_000_000)
	key := s.newKey("acme")
	insertKeys(t, s.Database, 100_000)
	publishLongPapers(t, s, memoryExams)
	s.Env = append(s.Env, "GOMEMLIMIT="+strconv.Itoa(goLimit), "GOMAXPROCS=1", "EXAMPREP_LOG_LEVEL=info")
	group := newMemoryCgroup(t, chartLimit)
	s.Path = group.wrap(t, s.Path)
	pod := s.start("api")
	pod.MayFail = true // it is killed at the end of the test

	for i := range memoryExams { // warms the cache
		path := fmt.Sprintf("/v1/exam-prep/xx-memory-%d/mock-exams/questions", i)
		body := fmt.Sprintf(`{"paper_id":"xx-memory-%d-2023"}`, i)
		response, text := testkit.Call(t, http.DefaultTransport.RoundTrip, http.MethodPost, "http://"+pod.Address+path, body,
			map[string]string{"Authorization": "Bearer " + key, "Content-Type": "application/json"})
		if response.StatusCode != http.StatusOK {
			t.Fatalf("%s: %d %.200s", path, response.StatusCode, text)
		}
	}
	l := &memoryLoad{t: t, pod: pod, head: "Host: x\r\nAuthorization: Bearer " + key + "\r\n"}
	for i := range l.others {
		l.others[i] = s.newKey(fmt.Sprintf("account-%d", i))
	}
	l.sendsNames(60)
	l.readsNothing(100)
	held := l.holdsBodies(1000)
	for range idle {
		l.idles()
	}
	for range silent {
		l.open()
	}
	for range silent {
		_, err := io.WriteString(l.open(), "G")
		check.NoError(t, err)
	}
	l.idles() // in the place of a connection without a key
	sockets, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pod.PID()))
	check.NoError(t, err)
	if len(sockets) < idle+held {
		t.Errorf("the pod has %d open files, want the connections of %d idle clients and of %d bodies", len(sockets), idle, held)
	}
	if !testkit.Answers(pod.Health, "/readyz") {
		t.Error("the pod is not ready")
	}
	peak := peakMemory(t, pod.PID())
	t.Logf("peak: %d MiB, with %d bodies", peak>>20, held)
	if peak >= chartLimit {
		t.Errorf("the pod took %d MiB, the chart's limit is %d", peak>>20, chartLimit>>20)
	}
	group.check(t)
}

// publishLongPapers publishes exams of 1,000 questions each, 2 MB an exam.
func publishLongPapers(t *testing.T, s *env, exams int) {
	t.Helper()
	const questions = 1000
	pool := testkit.Open(t, s.Database)
	answers := strings.Split(strings.Repeat("B", questions), "")
	for i := range exams {
		exam := catalogtest.Exam(fmt.Sprintf("xx-memory-%d", i), "Memory", answers...)
		for q := range exam.Papers[0].Questions {
			exam.Papers[0].Questions[q].Prompt += strings.Repeat(fmt.Sprintf(" text %d of %d,", q, i), 140)
		}
		catalogtest.Publish(t, pool, exam)
	}
}

// memoryLoad opens connections to a pod. They stay open until the test ends.
type memoryLoad struct {
	t   *testing.T
	pod *testkit.Pod
	// head has the headers of each request without a body.
	head string
	// others are keys of other accounts, for requests with bodies: one family may have a quarter of their memory.
	others [8]string
}

func (l *memoryLoad) open() net.Conn {
	l.t.Helper()
	conn, err := (&net.Dialer{Timeout: testkit.Patience}).DialContext(l.t.Context(), "tcp", l.pod.Address)
	check.NoError(l.t, err)
	l.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// holdsBodies sends submissions of 1 MiB that lack one byte, of eight accounts. The pod must hold most of the bodies that it may
// and refuse the rest. It returns the number of those that it holds.
func (l *memoryLoad) holdsBodies(sent int) (held int) {
	l.t.Helper()
	budget, err := memory.Overrides{}.Divide(goLimit, "the test")
	check.NoError(l.t, err)
	short := bytes.Repeat([]byte{' '}, 1<<20-1)
	var refused atomic.Int64
	for i := range sent {
		conn := l.open()
		_, _ = fmt.Fprintf(conn, "POST /v1/exam-prep/xx-memory-0/mock-exams/submit HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n"+
			"Content-Type: application/json\r\nContent-Length: 1048576\r\n\r\n", l.others[i%len(l.others)])
		_, _ = conn.Write(short) // the pod can refuse it and end the connection
		go func() {
			if response, err := http.ReadResponse(bufio.NewReader(conn), nil); err == nil {
				_ = response.Body.Close()
			}
			_ = conn.Close()
			refused.Add(1)
		}()
	}
	testkit.Eventually(l.t, "each body is held or refused", func() bool {
		held = int(l.bodyBytes() >> 20)
		return int(refused.Load())+held == sent
	})
	// Each client has a third of the free memory, so n clients have n/(n+3) of the memory for large bodies, in whole bodies.
	clients := int64(len(l.others))
	least := budget.Bodies/16*15*clients/(clients+3) - clients<<20
	if bytes := l.bodyBytes(); bytes > budget.Bodies || bytes < least {
		l.t.Errorf("the pod holds %d bytes of bodies, want at least %d and at most %d", bytes, least, budget.Bodies)
	}
	return held
}

// sendsNames sends submissions of 1 MiB at once, each with as many names as fit. The pod must refuse them all.
func (l *memoryLoad) sendsNames(sent int) {
	l.t.Helper()
	body := []byte(`{"attempt_id":"` + strings.Repeat("a", 36) + `"`)
	for i := 0; len(body) < 1<<20-16; i++ {
		body = fmt.Appendf(body, `,"%d":0`, i)
	}
	body = append(body, '}')
	statuses := make(chan int)
	for i := range sent {
		conn := l.open()
		go func() {
			_, _ = fmt.Fprintf(conn, "POST /v1/exam-prep/xx-memory-0/mock-exams/submit HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n"+
				"Connection: close\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", l.others[i%len(l.others)], len(body), body)
			response, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				statuses <- 0
				return
			}
			_ = response.Body.Close()
			statuses <- response.StatusCode
		}()
	}
	for range sent {
		if status := testkit.Receive(l.t, statuses, "a submission is answered"); status != http.StatusBadRequest && status != http.StatusServiceUnavailable {
			l.t.Errorf("a submission of many names is answered %d", status)
		}
	}
}

// readsNothing sends submissions of 1 MiB, each with a key that an error would quote, and does not read the answers. The pod must
// answer them all.
func (l *memoryLoad) readsNothing(sent int) {
	l.t.Helper()
	body := `{"attempt_id":"` + strings.Repeat("a", 36) + `","answers":{"` + strings.Repeat("\x7f", 1_040_000) + `":1}}`
	before := l.submissions()
	for i := range sent {
		conn := l.open()
		if tcp, ok := conn.(*net.TCPConn); ok {
			check.NoError(l.t, tcp.SetReadBuffer(4<<10))
		}
		go func() { // the pod can refuse it and not read on
			_, _ = fmt.Fprintf(conn, "POST /v1/exam-prep/xx-memory-0/mock-exams/submit HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n"+
				"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", l.others[i%len(l.others)], len(body), body)
		}()
	}
	testkit.Eventually(l.t, "each submission is answered", func() bool { return l.submissions() == before+sent })
}

// submissions returns the number of submissions that the pod has answered, by its metrics.
func (l *memoryLoad) submissions() (sum int) {
	for line := range strings.Lines(l.pod.Scrape()) {
		if strings.HasPrefix(line, "examprep_http_requests_total{") && strings.Contains(line, `operation="submitMockAttempt"`) {
			number, _ := strconv.ParseFloat(strings.TrimSpace(line[strings.LastIndex(line, " "):]), 64)
			sum += int(number)
		}
	}
	return sum
}

// bodyBytes returns the memory of bodies by the pod's metrics.
func (l *memoryLoad) bodyBytes() int64 {
	_, rest, _ := strings.Cut(l.pod.Scrape(), "\nexamprep_http_body_memory_bytes ")
	text, _, _ := strings.Cut(rest, "\n")
	bytes, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0
	}
	return int64(bytes)
}

// idles makes a request and keeps its connection.
func (l *memoryLoad) idles() {
	l.t.Helper()
	conn := l.open()
	_, err := io.WriteString(conn, "GET /v1/exam-prep/xx-memory-0/overview HTTP/1.1\r\n"+l.head+"\r\n")
	check.NoError(l.t, err)
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	check.NoError(l.t, err)
	_, err = io.Copy(io.Discard, response.Body)
	check.NoError(l.t, err)
	_ = response.Body.Close()
	if response.StatusCode != http.StatusOK || response.Close {
		l.t.Fatalf("a request is answered %d, and its connection ends: %v", response.StatusCode, response.Close)
	}
}

// cgroupVariable makes the test run the pod in a memory cgroup of the chart's limit. make memory sets it; it needs root.
const cgroupVariable = "COMMAND_TEST_CGROUP"

// memoryCgroup is the directory of a cgroup that has a memory limit, empty if there is none.
type memoryCgroup string

// newMemoryCgroup makes a cgroup. If the machine does not let the process, the test runs without one, and make memory fails.
func newMemoryCgroup(t *testing.T, limit int64) memoryCgroup {
	t.Helper()
	parent, file := "/sys/fs/cgroup/memory", "memory.limit_in_bytes" // version 1
	if _, err := os.Stat(filepath.Join(parent, file)); err != nil {
		parent, file = "/sys/fs/cgroup", "memory.max"
	}
	group := filepath.Join(parent, fmt.Sprintf("examprep-test-%d", os.Getpid()))
	err := os.Mkdir(group, 0o755)
	if err == nil {
		t.Cleanup(func() { check.NoError(t, os.Remove(group)) })
		err = os.WriteFile(filepath.Join(group, file), []byte(strconv.FormatInt(limit, 10)), 0) // fails without the memory controller
	}
	if err != nil && os.Getenv(cgroupVariable) == "" {
		t.Logf("the pod has no memory cgroup: %v", err)
		return ""
	}
	check.NoError(t, err)
	return memoryCgroup(group)
}

// wrap returns a program that enters the cgroup and becomes the given one.
func (g memoryCgroup) wrap(t *testing.T, program string) string {
	t.Helper()
	if g == "" {
		return program
	}
	path := filepath.Join(t.TempDir(), "examprep")
	script := fmt.Sprintf("#!/bin/sh\necho $$ > %s/cgroup.procs && exec %s \"$@\"\n", string(g), program)
	check.NoError(t, os.WriteFile(path, []byte(script), 0o700))
	return path
}

// check fails if the kernel killed a process of the cgroup for its memory.
func (g memoryCgroup) check(t *testing.T) {
	t.Helper()
	if g == "" {
		return
	}
	events, err := os.ReadFile(filepath.Join(string(g), "memory.oom_control")) // version 1
	if err != nil {
		events, err = os.ReadFile(filepath.Join(string(g), "memory.events"))
	}
	check.NoError(t, err)
	if !bytes.Contains(events, []byte("oom_kill 0\n")) {
		t.Errorf("the kernel killed the pod: %s", events)
	}
	for _, name := range []string{"memory.max_usage_in_bytes", "memory.peak"} {
		if peak, err := os.ReadFile(filepath.Join(string(g), name)); err == nil {
			t.Logf("%s: %s", name, bytes.TrimSpace(peak))
		}
	}
}

// restartPeakMemory makes peakMemory begin with the resident memory of now, and returns that in bytes.
func restartPeakMemory(t *testing.T, pid int) int64 {
	t.Helper()
	check.NoError(t, os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0))
	return peakMemory(t, pid)
}

// peakMemory returns the maximum resident memory that a process had, in bytes.
func peakMemory(t *testing.T, pid int) int64 {
	t.Helper()
	status := testkit.ReadFile(t, fmt.Sprintf("/proc/%d/status", pid))
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	number, _, _ := strings.Cut(strings.TrimSpace(rest), " kB")
	kib, err := strconv.ParseInt(number, 10, 64)
	check.NoError(t, err)
	return kib << 10
}

func insertKeys(t *testing.T, database string, n int) {
	t.Helper()
	pool := testkit.Open(t, database)
	testkit.Exec(t, pool, "ALTER TABLE api_keys DISABLE TRIGGER api_keys_changed")
	testkit.Exec(t, pool, `INSERT INTO api_keys (id, account_id, family_id, prefix, hash)
		SELECT g.id, a.id, g.id, 'service_' || lpad(to_hex(n), 8, '0'), sha256(convert_to(n::text, 'UTF8'))
		FROM set_config('examprep.bulk_changes', 'on', true), accounts a, generate_series(1, $1::int) n,
			LATERAL (SELECT ('00000000-0000-4000-8000-' || lpad(to_hex(n), 12, '0'))::uuid AS id) g`, n)
	testkit.Exec(t, pool, "ALTER TABLE api_keys ENABLE ALWAYS TRIGGER api_keys_changed")
}
