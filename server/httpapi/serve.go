package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/valyala/fasthttp"

	"examprep.dev/server/httpapi/apierror"
	"examprep.dev/server/httpapi/wire"
	"examprep.dev/server/keys"
)

const (
	// maxFraming is the size of a body on the wire, in bodies: a byte in a chunk of its own takes six bytes.
	maxFraming = 8
	// idleLinger is how long idle connections stay open after the last accept: a request can be on its way.
	idleLinger = time.Second
	// drainInterval is the time between two checks of the connections while the server stops.
	drainInterval = 100 * time.Millisecond
	// cutTimeout is how long handlers have to return after their context ended.
	cutTimeout = time.Second
)

// Serve answers requests on inner until ctx ends. Then it accepts no more connections, lets all requests finish within the
// grace, and returns nil. It returns an error if the listener breaks or requests were cut.
func (s *Server) Serve(ctx context.Context, inner net.Listener) error {
	defer s.end()
	l := wire.NewListener(ctx, inner, s.listenerConfig())
	served := make(chan error, 1)
	go func() { served <- s.http.Serve(l) }()
	until := func(stopped <-chan struct{}) error {
		select {
		case err := <-served:
			l.Cut()
			return fmt.Errorf("serve: %w", errors.Join(err, inner.Close()))
		case <-stopped:
			return nil
		}
	}
	if err := until(ctx.Done()); err != nil {
		return err
	}
	s.draining.Store(true)
	delay, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.DrainDelay)
	defer cancel()
	if err := until(delay.Done()); err != nil {
		return err
	}
	closeErr := l.Close()
	if err := errors.Join(<-served, closeErr); err != nil {
		s.deps.Logger.Warn("closing the listener failed", "error", err)
	}
	return s.drain(l)
}

func (s *Server) listenerConfig() wire.Config {
	return wire.Config{
		MaxConnections: s.cfg.MaxConnections, MaxPerAddress: s.cfg.MaxConnectionsPerAddress, Trusted: s.cfg.TrustedProxies,
		MaxRead:     maxFraming*s.cfg.MaxBodyBytes + 2*s.cfg.MaxHeaderBytes,
		ReadTimeout: s.cfg.ReadTimeout, WriteTimeout: s.cfg.WriteTimeout,
		Refusal: func() []byte {
			return rawResponse(apierror.Unavailable(), appendRequestID(nil, nil, time.Now()), keys.Default())
		},
		OnRefused: s.metrics.refused.Inc,
	}
}

// drain waits for the last connection to end, ends idle ones, and cuts the rest after the grace.
func (s *Server) drain(l *wire.Listener) error {
	idleUntil := time.Now().Add(idleLinger)
	look := time.NewTicker(drainInterval)
	defer look.Stop()
	wait := func(limit time.Duration) (left int) {
		for until := time.Now().Add(limit); ; <-look.C {
			// Each time: a connection can become idle between two checks, and have a deadline of its own then.
			if left = l.ExpireIdle(idleUntil); left == 0 || time.Now().After(until) {
				return left
			}
		}
	}
	left := wait(s.cfg.ShutdownGrace)
	if left == 0 {
		return nil
	}
	s.end()
	l.Cut()
	wait(cutTimeout)
	return fmt.Errorf("stop: %d connections were cut after %s", left, s.cfg.ShutdownGrace)
}

// rawResponse returns a complete HTTP/1.1 response for a connection that fasthttp does not serve. It has the rate limit of
// clients without a key.
func rawResponse(refusal *apierror.Error, requestID []byte, tier keys.Tier) []byte {
	body := refusal.Body()
	return fmt.Appendf(nil, "HTTP/1.1 %d %s\r\n"+
		"Connection: close\r\nContent-Type: application/json\r\nContent-Length: %d\r\nCache-Control: no-store\r\n"+
		"RateLimit-Limit: %d\r\nRateLimit-Remaining: 0\r\nRateLimit-Reset: %d\r\nRateLimit-Policy: %d;w=%d\r\n"+
		"Retry-After: %d\r\nx-request-id: %s\r\n\r\n%s",
		refusal.Status, fasthttp.StatusMessage(refusal.Status), len(body),
		tier.Requests, refusal.RetryAfter, tier.Requests, wholeSeconds(tier.Period),
		refusal.RetryAfter, requestID, body)
}
