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
	"testing"
	"time"

	"examprep.dev/server/catalog/catalogtest"
	"examprep.dev/server/keys"
	"examprep.dev/server/keys/directory"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
	"examprep.dev/server/testkit/race"
)

// TestAPIPodStaysWithinTheChartsMemory loads a pod with 100,000 keys and 80 MB of papers, holds 1,000 request bodies that lack one
// byte, and then opens 4,000 idle connections. The pod has the chart's GOMEMLIMIT, and must stay below its memory limit.
func TestAPIPodStaysWithinTheChartsMemory(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector needs several times the memory; make test runs this test without it")
	}
	const chartLimit, bodies, idle, exams, questions = 512 << 20, 1000, 4000, 40, 1000
	s := newEnv(t)
	pool := testkit.Open(t, s.Database)
	store := keys.NewStore(pool, directory.NewAuthor(pool, directory.AuthorConfig{}))
	check.NoError(t, store.ApplyTier(t.Context(), keys.TierSpec{Name: keys.DefaultTier, Requests: 1_000_000, Period: time.Second}))
	key := s.NewKey(t, "acme")
	insertKeys(t, s.Database, 100_000)
	answers := strings.Split(strings.Repeat("B", questions), "")
	for i := range exams {
		exam := catalogtest.Exam(fmt.Sprintf("xx-memory-%d", i), "Memory", answers...)
		for q := range exam.Papers[0].Questions {
			exam.Papers[0].Questions[q].Prompt += strings.Repeat(fmt.Sprintf(" text %d of %d,", q, i), 140)
		}
		catalogtest.Publish(t, pool, exam)
	}
	s.Env = append(s.Env, "GOMEMLIMIT="+strconv.Itoa(chartLimit/100*85), "GOMAXPROCS=1", "EXAMPREP_LOG_LEVEL=info")
	var group memoryCgroup
	if os.Getenv(cgroupVariable) != "" {
		group = newMemoryCgroup(t, chartLimit)
		s.Path = group.wrap(t, s.Path)
	}
	pod := s.start("api")
	pod.MayFail = true // it is killed at the end of the test
	head := "Host: x\r\nAuthorization: Bearer " + key + "\r\n"
	for i := range exams { // warms the cache
		path := fmt.Sprintf("/v1/exam-prep/xx-memory-%d/mock-exams/questions", i)
		body := fmt.Sprintf(`{"paper_id":"xx-memory-%d-2023"}`, i)
		response, text := testkit.Call(t, http.DefaultTransport.RoundTrip, http.MethodPost, "http://"+pod.Address+path, body,
			map[string]string{"Authorization": "Bearer " + key, "Content-Type": "application/json"})
		if response.StatusCode != http.StatusOK {
			t.Fatalf("%s: %d %.200s", path, response.StatusCode, text)
		}
	}
	open := func() net.Conn {
		conn, err := (&net.Dialer{Timeout: 30 * time.Second}).DialContext(t.Context(), "tcp", pod.Address)
		check.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	short := append([]byte("POST /v1/exam-prep/xx-memory-0/mock-exams/questions HTTP/1.1\r\n"+head+
		"Content-Type: application/json\r\nContent-Length: 1048576\r\n\r\n"), bytes.Repeat([]byte{' '}, 1<<20-1)...)
	for range bodies {
		conn := open()
		_ = conn.SetDeadline(time.Now().Add(30 * time.Second))
		_, _ = conn.Write(short) // the pod may refuse it and end the connection
	}
	for range idle {
		conn := open()
		_ = conn.SetDeadline(time.Now().Add(30 * time.Second))
		if _, err := io.WriteString(conn, "GET /v1/exam-prep/xx-memory-0/overview HTTP/1.1\r\n"+head+"\r\n"); err == nil {
			if response, err := http.ReadResponse(bufio.NewReader(conn), nil); err == nil {
				_, _ = io.Copy(io.Discard, response.Body)
				_ = response.Body.Close()
			}
		}
	}
	peak := peakMemory(t, pod.PID())
	t.Logf("peak: %d MiB", peak>>20)
	if peak >= chartLimit {
		t.Errorf("the pod took %d MiB, the chart's limit is %d", peak>>20, chartLimit>>20)
	}
	if group != "" {
		group.check(t)
	}
}

// cgroupVariable makes the test run the pod in a memory cgroup of the chart's limit. make memory sets it; it needs root.
const cgroupVariable = "COMMAND_TEST_CGROUP"

// memoryCgroup is the directory of a cgroup that has a memory limit.
type memoryCgroup string

func newMemoryCgroup(t *testing.T, limit int64) memoryCgroup {
	t.Helper()
	parent, file := "/sys/fs/cgroup/memory", "memory.limit_in_bytes" // version 1
	if _, err := os.Stat(filepath.Join(parent, file)); err != nil {
		parent, file = "/sys/fs/cgroup", "memory.max"
	}
	group := filepath.Join(parent, fmt.Sprintf("examprep-test-%d", os.Getpid()))
	check.NoError(t, os.Mkdir(group, 0o755))
	t.Cleanup(func() { check.NoError(t, os.Remove(group)) })
	check.NoError(t, os.WriteFile(filepath.Join(group, file), []byte(strconv.FormatInt(limit, 10)), 0))
	return memoryCgroup(group)
}

// wrap returns a program that enters the cgroup and becomes the given one.
func (g memoryCgroup) wrap(t *testing.T, program string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "examprep")
	script := fmt.Sprintf("#!/bin/sh\necho $$ > %s/cgroup.procs && exec %s \"$@\"\n", string(g), program)
	check.NoError(t, os.WriteFile(path, []byte(script), 0o700))
	return path
}

// check fails if the kernel killed a process of the cgroup for its memory.
func (g memoryCgroup) check(t *testing.T) {
	t.Helper()
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
		FROM accounts a, generate_series(1, $1::int) n, LATERAL (SELECT ('00000000-0000-4000-8000-' || lpad(to_hex(n), 12, '0'))::uuid AS id) g`, n)
	testkit.Exec(t, pool, "ALTER TABLE api_keys ENABLE ALWAYS TRIGGER api_keys_changed")
}
