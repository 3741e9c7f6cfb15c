package httpapi

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/valyala/fasthttp"
	"github.com/valyala/fasthttp/fasthttputil"

	"examprep.dev/server/attempts"
	"examprep.dev/server/catalog/read"
	"examprep.dev/server/gate"
	"examprep.dev/server/keys"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

// openGate lets everything pass: the benchmark is about what this package costs, not the gate.
type openGate struct{}

func (g openGate) CheckSession(ctx context.Context, _ []byte) gate.Decision {
	return g.Check(ctx, nil, netip.Addr{})
}

func (g openGate) Peek(ctx context.Context, client netip.Addr) gate.Decision {
	return g.Check(ctx, nil, client)
}

func (openGate) Check(context.Context, []byte, netip.Addr) gate.Decision {
	return gate.Decision{
		Outcome: gate.Allowed, Limit: 120, Remaining: 119, Reset: time.Second, Policy: gate.Policy{Requests: 120, Window: time.Minute},
	}
}

type oneExam struct {
	Catalog
	document read.Document
}

func (c oneExam) Ready() bool                            { return true }
func (c oneExam) OnChange(func([]read.ExamEntry))        {}
func (c oneExam) Overview(string) (read.Document, error) { return c.document, nil }

// BenchmarkGetOverview is a GET of 4 KB from the handler's entry to its return, without a socket. bare is the same
// answer from fasthttp alone, with as many headers.
func BenchmarkGetOverview(b *testing.B) {
	server := New(Config{}, Deps{
		Gate: openGate{}, Catalog: oneExam{document: read.Document{JSON: make([]byte, 4096), ETag: `"0123456789abcdef"`}},
		Logger: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry(),
	})
	for name, handler := range map[string]fasthttp.RequestHandler{
		"examprep": server.http.Handler,
		"bare": func(ctx *fasthttp.RequestCtx) {
			for _, name := range []string{
				"x-request-id", "RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset", "RateLimit-Policy", "Etag", "Cache-Control", "Vary",
			} {
				ctx.Response.Header.SetCanonical([]byte(name), []byte("application/json"))
			}
			ctx.Response.Header.SetContentType("application/json")
			ctx.Response.SetBodyRaw(make([]byte, 0))
		},
	} {
		b.Run(name, func(b *testing.B) {
			var request fasthttp.Request
			request.SetRequestURI("http://localhost/v1/exam-prep/xx-sample/overview")
			request.Header.Set("Authorization", "Bearer service_00000000000000000000000000000000000000005176df86")
			var ctx fasthttp.RequestCtx
			ctx.Init(&request, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1}, nil)
			b.ReportAllocs()
			for b.Loop() {
				ctx.Response.Reset()
				ctx.ResetUserValues()
				handler(&ctx)
			}
			if status := ctx.Response.StatusCode(); status != fasthttp.StatusOK {
				b.Fatal(status)
			}
		})
	}
}

// noPaper is a mock-exam engine without any paper: its refusals cost nothing but what they take to ask for.
type noPaper struct{ Attempts }

func (noPaper) Page(context.Context, keys.Identity, attempts.PageRequest) (attempts.Page, error) {
	return attempts.Page{Total: 1}, nil
}

// BenchmarkConnection is requests on one connection in memory, from the client's first byte to the answer's last: with
// what fasthttp and a connection (connection.go) do, and without a network.
func BenchmarkConnection(b *testing.B) {
	const head = "Host: x\r\nUser-Agent: Mozilla/5.0 (X11; Linux x86_64)\r\nAccept: */*\r\nContent-Type: application/json\r\n" +
		"Authorization: Bearer service_00000000000000000000000000000000000000005176df86\r\n"
	get := "GET /v1/exam-prep/xx-sample/overview HTTP/1.1\r\n" + head
	post := func(size int) string {
		body := `{"paper_id":"xx-sample-2023"}`
		body += strings.Repeat(" ", size-len(body))
		return "POST /v1/exam-prep/xx-sample/mock-exams/questions HTTP/1.1\r\n" + head + "Content-Length: " + strconv.Itoa(size) + "\r\n\r\n" + body
	}
	for _, c := range []struct{ name, sent string }{
		{"get", get + "\r\n"},
		{"get with a cookie of 2 KB", get + "Cookie: " + strings.Repeat("a", 2000) + "\r\n\r\n"},
		{"post of 100 B", post(100)},
		{"post of 32 KiB", post(32 << 10)},
	} {
		b.Run(c.name, func(b *testing.B) { benchmarkConnection(b, []byte(c.sent)) })
	}
}

func benchmarkConnection(b *testing.B, sent []byte) {
	b.Helper()
	server := New(Config{}, Deps{
		Gate: openGate{}, Catalog: oneExam{document: read.Document{JSON: make([]byte, 4096), ETag: `"0123456789abcdef"`}},
		Attempts: noPaper{}, Logger: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry(),
	})
	wire := fasthttputil.NewInmemoryListener()
	stop := testkit.Run(b, func(ctx context.Context) error { return server.Serve(ctx, wire) })
	defer stop()
	client, err := wire.Dial()
	check.NoError(b, err)
	defer func() { _ = client.Close() }()
	answer := make([]byte, 16<<10)
	size := roundTrip(b, client, sent, answer, 0)
	b.ReportAllocs()
	for b.Loop() {
		roundTrip(b, client, sent, answer, size)
	}
}

// roundTrip sends a request and reads its answer, of size bytes; 0: as long as its headers say. It returns the size.
func roundTrip(b *testing.B, client net.Conn, sent, answer []byte, size int) int {
	b.Helper()
	_, err := client.Write(sent)
	check.NoError(b, err)
	for n := 0; size == 0 || n < size; {
		read, err := client.Read(answer[n:])
		check.NoError(b, err)
		n += read
		if size == 0 {
			size = answerSize(b, string(answer[:n]))
		}
	}
	return size
}

// answerSize is how long the answer is that begins so; 0 where its headers are not whole.
func answerSize(b *testing.B, beginning string) int {
	b.Helper()
	head, _, whole := strings.Cut(beginning, "\r\n\r\n")
	if !whole {
		return 0
	}
	if !strings.HasPrefix(head, "HTTP/1.1 200 ") {
		b.Fatal(beginning)
	}
	_, length, _ := strings.Cut(head, "Content-Length: ")
	length, _, _ = strings.Cut(length, "\r\n")
	body, err := strconv.Atoi(length)
	check.NoError(b, err)
	return len(head) + 4 + body
}
