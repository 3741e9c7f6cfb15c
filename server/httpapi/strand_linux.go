package httpapi

import (
	"context"
	"iter"

	"github.com/valyala/fasthttp"

	"examprep.dev/server/gate"
)

// stage is why a strand stopped.
type stage uint8

const (
	answered stage = iota // the answer is there, and its lane writes it
	parked                // it goes on when it is woken
	leaving               // it is about to block
)

// strand is a coroutine that handles one request of a lane after the other, and the context of those requests. It runs
// inside the lane's goroutine until it waits for the gate, or for good in one of its own before it waits for anything else.
type strand struct {
	context.Context //nolint:containedctx // the server's life: a strand is a context

	lane *lane
	conn *laneConn
	http fasthttp.RequestCtx

	next  func() (stage, bool)
	stop  func()
	yield func(stage) bool
	// alone says that the request in hand has left for a goroutine of its own.
	alone bool
}

var _ laneRequest = (*strand)(nil)

func newStrand(l *lane) *strand {
	s := &strand{Context: l.server.life, lane: l}
	s.next, s.stop = iter.Pull(s.handle)
	return s
}

// handle is the coroutine: a request each time it is resumed after an answer.
func (s *strand) handle(yield func(stage) bool) {
	s.yield = yield
	for {
		s.lane.server.http.Handler(&s.http)
		if !yield(answered) {
			return
		}
	}
}

// begin takes a request in hand whose header was read.
func (s *strand) begin(c *laneConn) {
	s.conn, c.strand, c.own.within = c, s, s
	s.http.Init2(c.own, nil, false)
	s.http.Response.Header.SetNoDefaultContentType(true)
}

// reset forgets the request.
func (s *strand) reset() {
	s.conn, s.alone = nil, false
	s.http.ResetUserValues()
	s.http.Request.Reset()
	s.http.Response.Reset()
}

// Value is context.Context's: a request in its lane has a Parker.
func (s *strand) Value(key any) any {
	if _, asked := key.(gate.ParkerKey); asked {
		if s.alone {
			return nil
		}
		return s
	}
	return s.Context.Value(key)
}

// Park is gate.Parker's.
func (s *strand) Park() { s.yield(parked) }

// Wake is gate.Parker's.
func (s *strand) Wake() { s.lane.wake(s) }

// Leave is gate.Parker's.
func (s *strand) Leave() {
	if s.alone {
		return
	}
	s.alone = true
	s.yield(leaving)
}
