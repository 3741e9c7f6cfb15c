package httpapi

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/valyala/fasthttp"

	"examprep.dev/server/catalog/read"
	"examprep.dev/server/gate"
	"examprep.dev/server/httpapi/apierror"
	"examprep.dev/server/httpapi/endpoint"
	"examprep.dev/server/testkit/check"
)

// closedGate answers every request with one decision.
type closedGate gate.Decision

func (g closedGate) CheckSession(context.Context, []byte) gate.Decision { return gate.Decision(g) }

func (g closedGate) Check(context.Context, []byte, netip.Addr) gate.Decision { return gate.Decision(g) }

func (g closedGate) Peek(context.Context, netip.Addr) gate.Decision { return gate.Decision(g) }

type brokenCatalog struct {
	Catalog
	ready bool
}

func (c brokenCatalog) Ready() bool                     { return c.ready }
func (c brokenCatalog) OnChange(func([]read.ExamEntry)) {}
func (c brokenCatalog) Overview(string) (read.Document, error) {
	panic("a defect, with inner secrets")
}

// answer sends one GET of an overview through a server of these parts.
func answer(t *testing.T, g Gate, c Catalog) (response *fasthttp.Response, logs string) {
	t.Helper()
	var log bytes.Buffer
	server := New(Config{}, Deps{Gate: g, Catalog: c, Logger: slog.New(slog.NewJSONHandler(&log, nil)), Registerer: prometheus.NewRegistry()})
	var request fasthttp.Request
	request.SetRequestURI("http://localhost/v1/exam-prep/xx-sample/overview")
	request.Header.Set("X-Request-Id", "mine")
	var ctx fasthttp.RequestCtx
	ctx.Init(&request, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1}, nil)
	server.http.Handler(&ctx)
	if id := peek(&ctx.Response.Header, "x-request-id"); string(id) != "mine" {
		t.Errorf("x-request-id = %q", id)
	}
	for _, name := range []string{"RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset", "RateLimit-Policy"} {
		if len(peek(&ctx.Response.Header, name)) == 0 {
			t.Errorf("%s is missing", name)
		}
	}
	return &ctx.Response, log.String()
}

// peek finds a header however its name is spelled; fasthttp's own Peek knows its spelling only.
func peek(header *fasthttp.ResponseHeader, name string) []byte {
	for key, value := range header.All() {
		if strings.EqualFold(string(key), name) {
			return value
		}
	}
	return nil
}

func TestAPanicIsAnsweredAndToldToNobodyOutside(t *testing.T) {
	t.Parallel()
	got, logs := answer(t, openGate{}, brokenCatalog{ready: true})
	if want := `{"error":"internal_error","detail":"The request failed on our side."}`; got.StatusCode() != 500 || string(got.Body()) != want {
		t.Errorf("%d %s", got.StatusCode(), got.Body())
	}
	for _, want := range []string{`"request_id":"mine"`, "a defect", "middleware_test.go", `"operation":"getExamOverview"`, `"status":500`} {
		if !strings.Contains(logs, want) {
			t.Errorf("the log lacks %s: %s", want, logs)
		}
	}
}

// brokenGate is a gate with a defect.
type brokenGate struct{ Gate }

func (brokenGate) Check(context.Context, []byte, netip.Addr) gate.Decision { panic("a defect") }

// TestPanicOfAMiddlewareIsAnswered: the process goes on, whatever part of it is at fault.
func TestPanicOfAMiddlewareIsAnswered(t *testing.T) {
	t.Parallel()
	none := func(*Server) {}
	for name, c := range map[string]struct {
		gate   Gate
		damage func(*Server)
	}{
		"gate":     {brokenGate{}, none},
		"refusals": {closedGate{Outcome: gate.Unauthorized}, func(s *Server) { s.refusals.limiter = nil }},
	} {
		t.Run(name, func(t *testing.T) {
			server := New(Config{}, Deps{
				Gate: c.gate, Catalog: brokenCatalog{ready: true}, Logger: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry(),
			})
			c.damage(server)
			got := send(server, fasthttp.MethodGet, "/v1/exam-prep/list", nil)
			if got.StatusCode() != fasthttp.StatusInternalServerError || !got.ConnectionClose() || len(peek(&got.Header, "x-request-id")) == 0 {
				t.Errorf("%s", got)
			}
		})
	}
}

func TestNothingIsNotFoundBeforeTheCatalogueIsLoaded(t *testing.T) {
	t.Parallel()
	got, _ := answer(t, openGate{}, brokenCatalog{ready: false})
	if got.StatusCode() != 503 || len(peek(&got.Header, "Retry-After")) == 0 {
		t.Errorf("%d %s", got.StatusCode(), got.Body())
	}
}

func TestTheGateDecidesTheStatus(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name       string
		decision   gate.Decision
		status     int
		retryAfter string
	}{
		{"limited", gate.Decision{Outcome: gate.Limited, RetryAfter: 2500 * time.Millisecond}, 429, "3"},
		{"limited for a moment", gate.Decision{Outcome: gate.Limited, RetryAfter: time.Millisecond}, 429, "1"},
		{"unauthorized", gate.Decision{Outcome: gate.Unauthorized}, 401, ""},
		{"unavailable", gate.Decision{Outcome: gate.Unavailable, RetryAfter: 5 * time.Second}, 503, "5"},
		{"never decided", gate.Decision{}, 503, "2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, _ := answer(t, closedGate(c.decision), brokenCatalog{ready: true})
			if retry := string(peek(&got.Header, "Retry-After")); got.StatusCode() != c.status || retry != c.retryAfter {
				t.Errorf("%d, Retry-After %q, want %d, %q", got.StatusCode(), retry, c.status, c.retryAfter)
			}
		})
	}
}

func TestRequestIDIsTheCallersOrAnew(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		presented string
		kept      bool
	}{
		{"a", true},
		{"Ab9._-", true},
		{strings.Repeat("x", 128), true},
		{"", false},
		{strings.Repeat("x", 129), false},
		{"a b", false},
		{"a/b", false},
		{"é", false},
		{"a@", false},
		{"[", false},
	} {
		now := time.UnixMilli(1_796_000_000_123)
		got := string(appendRequestID(nil, []byte(c.presented), now))
		if c.kept {
			if got != c.presented {
				t.Errorf("%q became %q", c.presented, got)
			}
			continue
		}
		id, err := uuid.Parse(got)
		if seconds, nanos := id.Time().UnixTime(); err != nil || id.Version() != 7 || id.Variant() != uuid.RFC4122 || !time.Unix(seconds, nanos).Equal(now) {
			t.Errorf("%q became %q, want a new UUIDv7", c.presented, got)
		}
	}
}

// TestABodysMemoryIsCountedAndBounded: a body takes at most a byte more than it is long, or may be. While its handler runs, that
// is counted, and three times its length for the reading. Afterwards nothing is, whatever the handler does.
func TestABodysMemoryIsCountedAndBounded(t *testing.T) {
	t.Parallel()
	const limit = 1 << 20
	for _, c := range []struct {
		name            string
		size, announced int
		most            int64
		status          int
	}{
		{"with a length", 700_000, 700_000, 700_001, fasthttp.StatusOK},
		{"with the longest length", limit, limit, limit + 1, fasthttp.StatusOK},
		{"in chunks", limit, -1, limit + 1, fasthttp.StatusOK},
		{"empty", 0, 0, 1, fasthttp.StatusOK},
		{"in too many chunks", limit + 1, -1, 0, fasthttp.StatusRequestEntityTooLarge},
		{"shorter than announced", 10, 20, 0, fasthttp.StatusBadRequest},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := New(Config{MaxBodyBytes: limit}, Deps{Catalog: brokenCatalog{}, Logger: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry()})
			var ctx fasthttp.RequestCtx
			ctx.Request.SetBodyStream(strings.NewReader(strings.Repeat(" ", c.size)), c.announced)
			ran := int64(0)
			read := s.readBody(&endpoint.Route{Needs: endpoint.Body, MaxBody: limit}, func(_ context.Context, r *exchange) error {
				if ran = s.bodies.bytes() - int64(parsing*len(r.Body)); int64(cap(r.Body)) != ran || len(r.Body) != c.size {
					t.Errorf("%d bytes in %d, of which %d are counted", len(r.Body), cap(r.Body), ran)
				}
				panic("whatever the handler does")
			})
			err := func() (err error) {
				defer func() { _ = recover() }()
				return read(t.Context(), &exchange{Request: endpoint.Request{HTTP: &ctx}})
			}()
			if c.status == fasthttp.StatusOK && (ran == 0 || ran > c.most) || c.status != fasthttp.StatusOK && (ran != 0 || apierror.From(err).Status != c.status) {
				t.Errorf("%d bytes were held, at most %d; error %v", ran, c.most, err)
			}
			check.Equal(t, s.bodies.bytes(), 0, "bytes held afterwards")
		})
	}
}

// TestNotModifiedTellsWhatItStandsFor: a 304 has the fields of its 200 that caches live by (RFC 9110 §15.4.5), and none
// of the content that it lacks.
func TestNotModifiedTellsWhatItStandsFor(t *testing.T) {
	t.Parallel()
	server, _ := newStandInServer(t)
	get := func(coding, condition string) *fasthttp.Response {
		var request fasthttp.Request
		request.SetRequestURI("http://localhost/v1/exam-prep/x/overview")
		request.Header.Set("Accept-Encoding", coding)
		request.Header.Set("If-None-Match", condition)
		var ctx fasthttp.RequestCtx
		ctx.Init(&request, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1}, nil)
		ctx.Response.Header.SetNoDefaultContentType(true) // as the server does
		server.http.Handler(&ctx)
		return &ctx.Response
	}
	for _, coding := range []string{"identity", "gzip", "br", "zstd"} {
		whole := get(coding, "")
		etag := string(whole.Header.Peek("Etag"))
		for _, condition := range []string{etag, "W/" + etag, `"x", ` + etag, "*"} {
			not := get(coding, condition)
			if not.StatusCode() != fasthttp.StatusNotModified || len(not.Body()) > 0 {
				t.Fatalf("%s, If-None-Match %s: %d with %d bytes", coding, condition, not.StatusCode(), len(not.Body()))
			}
			for _, name := range []string{"Etag", "Cache-Control", "Vary"} {
				if got, want := not.Header.Peek(name), whole.Header.Peek(name); len(want) == 0 || !bytes.Equal(got, want) {
					t.Errorf("%s: %s is %q in 304 and %q in 200", coding, name, got, want)
				}
			}
			if len(not.Header.ContentType())+len(not.Header.ContentEncoding()) > 0 {
				t.Errorf("%s: 304 describes content: %s", coding, &not.Header)
			}
		}
		if other := get(coding, etag[:len(etag)-1]+`x"`); other.StatusCode() != fasthttp.StatusOK {
			t.Errorf("%s: %d for another ETag", coding, other.StatusCode())
		}
	}
}
