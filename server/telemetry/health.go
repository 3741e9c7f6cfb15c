package telemetry

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"time"
)

// readyTimeout limits one call of Ready; the kubelet's default is one second.
const readyTimeout = time.Second

// Ready reports whether the process can do its work now: nil, or an error with the reason, for people. Every client of the
// health port can read the error, so it must not contain a secret.
type Ready func(ctx context.Context) error

// NewHealthServer serves /healthz (200 while the process runs) and /readyz (200, or 503 with the reason).
func NewHealthServer(address string, ready Ready, logger *slog.Logger) *Server {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		writeStatus(w, http.StatusOK, "ok", "")
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), readyTimeout)
		defer cancel()
		if err := ready(ctx); err != nil {
			writeStatus(w, http.StatusServiceUnavailable, "unready", err.Error())
			return
		}
		writeStatus(w, http.StatusOK, "ok", "")
	})
	return newServer("health", address, mux, logger)
}

func writeStatus(w http.ResponseWriter, code int, status, reason string) {
	body, err := json.Marshal(struct {
		Status string `json:"status"`
		Reason string `json:"reason,omitempty"`
	}{status, reason})
	if err != nil { // two strings always encode
		code = http.StatusInternalServerError
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	_, _ = w.Write(append(body, '\n')) // the client may have closed the connection
}
