package client_test

import (
	"io"
	"net/http"
	"time"

	"examprep.dev/api/client"
)

// A receiver verifies the raw body before it parses it, and responds before it processes the event.
func ExampleVerify() {
	secret := "whsec_…" // from your settings
	mux := http.NewServeMux()
	mux.HandleFunc("POST /hook", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
		if err != nil {
			http.Error(w, "unreadable", http.StatusBadRequest)
			return
		}
		if err := client.Verify(r.Header.Get(client.SignatureHeader), body, secret, time.Now(), client.Tolerance); err != nil {
			http.Error(w, "invalid signature", http.StatusBadRequest)
			return
		}
		// Store body under r.Header.Get("Webhook-Id") unless it is stored already, and process it later.
		w.WriteHeader(http.StatusNoContent)
	})
	// Output:
}
