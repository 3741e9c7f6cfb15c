package command

import (
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	coltracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"examprep.dev/server/catalog/catalogtest"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

type collector struct {
	t *testing.T

	mu    sync.Mutex
	spans []*span
}

type span struct {
	*tracepb.Span
	process string
}

func collect(t *testing.T, s *env) *collector {
	t.Helper()
	c := &collector{t: t}
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	s.Env = append(s.Env, "OTEL_EXPORTER_OTLP_ENDPOINT="+server.URL)
	return c
}

// ServeHTTP takes what OTLP over HTTP sends.
func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var sent coltracepb.ExportTraceServiceRequest
	if err == nil {
		err = proto.Unmarshal(body, &sent)
	}
	if err != nil {
		c.t.Errorf("collector: %v", err)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, resource := range sent.GetResourceSpans() {
		process := ""
		for _, attribute := range resource.GetResource().GetAttributes() {
			if attribute.GetKey() == "service.name" {
				process = attribute.GetValue().GetStringValue()
			}
		}
		for _, scope := range resource.GetScopeSpans() {
			for _, s := range scope.GetSpans() {
				c.spans = append(c.spans, &span{s, process})
			}
		}
	}
	w.WriteHeader(http.StatusOK)
}

func (c *collector) named(name string, trace []byte) (found []*span) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.spans {
		if s.GetName() == name && (trace == nil || slices.Equal(s.GetTraceId(), trace)) {
			found = append(found, s)
		}
	}
	return found
}

func (c *collector) one(name string, trace []byte) *span {
	c.t.Helper()
	found := c.named(name, trace)
	if len(found) != 1 {
		c.t.Fatalf("%d spans are named %s", len(found), name)
	}
	return found[0]
}

func (s *span) isChildOf(parent *span) bool {
	return slices.Equal(s.GetParentSpanId(), parent.GetSpanId()) && slices.Equal(s.GetTraceId(), parent.GetTraceId())
}

const callersTrace = "0af7651916cd43dd8448eb211c80319c"

// submitTraced opens and submits an attempt through real processes, as part of a caller's trace. It waits until both events
// are delivered and their spans are collected.
func submitTraced(t *testing.T, apiFlags ...string) (*collector, *client) {
	t.Helper()
	s := newEnv(t)
	told := collect(t, s)
	pool := testkit.Open(t, s.Database)
	catalogtest.Publish(t, pool, catalogtest.Exam(privateExam, "Private exam", "B"))
	c := &client{env: s, pool: pool, address: testkit.FreeAddress(t), statuses: map[int]int{}}
	c.key, c.learner = s.newKey(canary), learnerReferences[0]
	s.registerReceiver(pool)
	serve := append([]string{"api", "--listen", c.address}, apiFlags...)
	opener := s.start(serve...)
	attempt := c.open()
	opener.Stop() // the pod that opened the attempt would submit it without a read
	api := s.start(serve...)
	worker := s.start("worker")
	status, _ := c.send("POST", examPath+"/mock-exams/submit", c.submission(attempt, "B"),
		map[string]string{"traceparent": "00-" + callersTrace + "-b7ad6b7169203331-01"})
	if status != http.StatusOK {
		t.Fatalf("submit: %d", status)
	}
	testkit.Eventually(t, "both deliveries are told of", func() bool { return len(told.named("deliver", nil)) == 2 })
	worker.Stop()
	api.Stop()
	return told, c
}

func TestOneTraceTellsOfARequestDownToItsDelivery(t *testing.T) {
	t.Parallel()
	told, c := submitTraced(t)
	submit := told.one("submitMockAttempt", nil)
	if submit.process != "examprep-api" || len(submit.GetParentSpanId()) != 0 {
		t.Errorf("the request's span is of %s, with parent %x", submit.process, submit.GetParentSpanId())
	}
	if links := submit.GetLinks(); len(links) != 1 || hex.EncodeToString(links[0].GetTraceId()) != callersTrace {
		t.Errorf("the caller's trace is not linked: %v", links)
	}
	trace := submit.GetTraceId()
	if gate := told.one("gate", trace); !gate.isChildOf(submit) {
		t.Error("the gate is not below the request")
	}
	for _, statement := range []string{"FindAttempt", "CloseAttempt"} {
		if s := told.one(statement, trace); !s.isChildOf(submit) || s.process != "examprep-api" {
			t.Errorf("%s is not a statement of the request", statement)
		}
	}
	for _, name := range []string{"outbox", "deliver"} {
		spans := told.named(name, trace)
		check.Equal(t, len(spans), 2, "spans, of which each event name has one")
		for _, s := range spans {
			if !s.isChildOf(submit) || s.process != "examprep-worker" {
				t.Errorf("%s of %s is not below the request", name, s.process)
			}
		}
	}
	if opened := told.one("openMockPaper", nil); slices.Equal(opened.GetTraceId(), trace) {
		t.Error("two requests share a trace")
	}
	holdNothingPrivate(t, told, c)
}

func holdNothingPrivate(t *testing.T, told *collector, c *client) {
	t.Helper()
	secret := testkit.Get[string](t, c.pool, "SELECT encode(ciphertext, 'hex') FROM webhook_secrets")
	told.mu.Lock()
	defer told.mu.Unlock()
	for _, s := range told.spans {
		text := fmt.Sprint(s.Span)
		for what, private := range map[string]string{
			"the key": c.key[len("service_"):], "its digest's prefix": c.key[len("service_") : len("service_")+8], "the learner": c.learner,
			"a secret": "whsec_", "a stored secret": secret, "a body": "paper_id", "SQL": "UPDATE attempts", "the receiver's address": "/hook",
		} {
			if strings.Contains(text, private) {
				t.Errorf("a span %s holds %s: %s", s.GetName(), what, text)
			}
		}
	}
}

func TestATrustedCallersTraceGoesOn(t *testing.T) {
	t.Parallel()
	told, _ := submitTraced(t, "--trust-traceparent")
	submit := told.one("submitMockAttempt", nil)
	if hex.EncodeToString(submit.GetTraceId()) != callersTrace || len(submit.GetLinks()) != 0 {
		t.Errorf("the request's trace is %x, with links %v", submit.GetTraceId(), submit.GetLinks())
	}
	check.Equal(t, len(told.named("deliver", submit.GetTraceId())), 2, "deliveries in the caller's trace")
}
