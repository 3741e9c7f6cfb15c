package telemetry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// The time limits of the servers for health and metrics: the kubelet and the scraper are nearby.
const (
	sideReadTimeout  = 5 * time.Second
	sideWriteTimeout = 30 * time.Second
	sideIdleTimeout  = 2 * time.Minute
	sideStopTimeout  = 2 * time.Second
)

// Server is a small HTTP server for health or metrics.
type Server struct {
	name, address string
	http          *http.Server
}

func newServer(name, address string, handler http.Handler, logger *slog.Logger) *Server {
	return &Server{name: name, address: address, http: &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: sideReadTimeout,
		ReadTimeout:       sideReadTimeout,
		WriteTimeout:      sideWriteTimeout,
		IdleTimeout:       sideIdleTimeout,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(logger.Handler(), slog.LevelWarn),
	}}
}

// Serve listens and serves until ctx ends. Then it finishes the requests in flight (at most two seconds) and returns nil.
// It returns an error if it cannot listen or its listener fails.
func (s *Server) Serve(ctx context.Context) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.address)
	if err != nil {
		return fmt.Errorf("%s server: %w", s.name, err)
	}
	return s.ServeListener(ctx, listener)
}

// ServeListener is Serve on an open listener, which it closes.
func (s *Server) ServeListener(ctx context.Context, listener net.Listener) error {
	served := make(chan error, 1)
	go func() { served <- s.http.Serve(listener) }()
	select {
	case err := <-served:
		return fmt.Errorf("%s server: %w", s.name, err)
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), sideStopTimeout)
	defer cancel()
	if err := s.http.Shutdown(grace); err != nil {
		_ = s.http.Close() // a scraper that hangs does not delay the exit
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("%s server: %w", s.name, err)
	}
	return nil
}
