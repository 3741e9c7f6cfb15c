package telemetry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// readyTimeout limits one call of Ready; the kubelet's default is one second.
const readyTimeout = time.Second

// The time limits of the servers for health and metrics: the kubelet and the scraper are nearby.
const (
	sideReadTimeout  = 5 * time.Second
	sideWriteTimeout = 30 * time.Second
	sideIdleTimeout  = 2 * time.Minute
	sideStopTimeout  = 2 * time.Second
)

// Ready reports whether the process can do its work now: nil, or an error with the reason, for people. Every client of the
// health port can read the error, so it must not contain a secret.
type Ready func(ctx context.Context) error

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

// NewHealthServer serves /healthz (200 while the process runs) and /readyz (200, or 503 with the reason).
func NewHealthServer(address string, ready Ready, logger *slog.Logger) *Server {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { writeStatus(w, nil) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), readyTimeout)
		defer cancel()
		writeStatus(w, ready(ctx))
	})
	return newServer("health", address, mux, logger)
}

func writeStatus(w http.ResponseWriter, unready error) {
	code := http.StatusOK
	body := struct {
		Status string `json:"status"`
		Reason string `json:"reason,omitempty"`
	}{Status: "ok"}
	if unready != nil {
		code, body.Status, body.Reason = http.StatusServiceUnavailable, "unready", unready.Error()
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body) //nolint:errchkjson // the client may have closed the connection
}
