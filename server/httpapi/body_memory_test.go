package httpapi

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/valyala/fasthttp"

	"examprep.dev/server/httpapi/apierror"
	"examprep.dev/server/httpapi/endpoint"
	"examprep.dev/server/testkit/check"
)

// TestABodysMemoryIsCountedAndBounded: a body takes at most a byte more than it is long, or may be, all of it counted
// while its handler runs; afterwards nothing is, whatever became of it.
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
			read := s.readBody(&endpoint.Route{Needs: endpoint.Body}, func(_ context.Context, r *exchange) error {
				if ran = s.bodies.held.Load(); int64(cap(r.Body)) != ran || len(r.Body) != c.size {
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
			check.Equal(t, s.bodies.held.Load(), 0, "bytes held afterwards")
		})
	}
}
