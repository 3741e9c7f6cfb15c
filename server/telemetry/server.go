package telemetry

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// Checks holds the time limits of checks, and of the servers for their results. A zero field means its default.
type Checks struct {
	// Ready bounds one call of [Ready] (1 s, the kubelet's default).
	Ready time.Duration
	// Store is the longest response time of a store that is up (2 s): requests cannot use a slower one.
	Store time.Duration
	// Read bounds the reading of a request to the servers for health and metrics (5 s): the kubelet and the scraper are nearby.
	Read time.Duration
	// Write bounds the response of these servers (30 s).
	Write time.Duration
}

// The defaults of [Checks].
const (
	readyTimeout     = time.Second
	storeTimeout     = 2 * time.Second
	sideReadTimeout  = 5 * time.Second
	sideWriteTimeout = 30 * time.Second
)

// The time limits of the servers for health and metrics.
const (
	sideIdleTimeout = 2 * time.Minute
	sideStopTimeout = 2 * time.Second
)

// Ready reports whether the process can do its work now: nil, or an error with the reason, for people. Every client of the
// health port can read the error, so it must not contain a secret.
type Ready func(ctx context.Context) error

// Server is a small HTTP server for health or metrics.
type Server struct {
	name, address string
	http          *http.Server
}

func (c Checks) newServer(name, address string, handler http.Handler, logger *slog.Logger) *Server {
	read := cmp.Or(c.Read, sideReadTimeout)
	return &Server{name: name, address: address, http: &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: read,
		ReadTimeout:       read,
		WriteTimeout:      cmp.Or(c.Write, sideWriteTimeout),
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
func (c Checks) NewHealthServer(address string, ready Ready, logger *slog.Logger) *Server {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { writeStatus(w, nil) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), cmp.Or(c.Ready, readyTimeout))
		defer cancel()
		writeStatus(w, ready(ctx))
	})
	return c.newServer("health", address, mux, logger)
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
