package httpapi

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/valyala/fasthttp"

	"examprep.dev/server/catalog/read"
	"examprep.dev/server/gate"
)

// openGate lets everything pass: the benchmark is about what this package costs, not the gate.
type openGate struct{}

func (g openGate) CheckSession(ctx context.Context, _ []byte) gate.Decision {
	return g.Check(ctx, nil, netip.Addr{})
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
