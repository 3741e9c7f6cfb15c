package client_test

import (
	"io"
	"net/http"
	"time"

	"examprep.dev/api/client"
)

// A receiver verifies the raw body before it looks into it, and answers before it works on the event.
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
			http.Error(w, "not believed", http.StatusBadRequest)
			return
		}
		// Keep body under r.Header.Get("Webhook-Id"), unless it is there already, and work on it later.
		w.WriteHeader(http.StatusNoContent)
	})
	// Output:
}
