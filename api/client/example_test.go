package client_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"time"

	"examprep.dev/api/client"
)

// receive returns a receiver. It verifies the raw body before it parses it, stores each event once, and responds before it
// processes the event.
func receive(secret, folder string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
		if err != nil {
			http.Error(w, "unreadable", http.StatusBadRequest)
			return
		}
		event, err := client.ParseEvent(r.Header.Get(client.SignatureHeader), body, secret, time.Now())
		if err != nil {
			http.Error(w, "not authentic", http.StatusBadRequest)
			return
		}
		isNew, err := store(event.DedupeKey, body, folder)
		if err != nil {
			http.Error(w, "not stored", http.StatusInternalServerError) // the delivery is tried again
			return
		}
		fmt.Println(event.Kind, "is new:", isNew)
		w.WriteHeader(http.StatusNoContent)
	}
}

// store stores an event under its DedupeKey and reports whether it is new.
func store(key string, body []byte, folder string) (isNew bool, err error) {
	draft, err := os.CreateTemp(folder, "draft")
	if err != nil {
		return false, err
	}
	defer os.Remove(draft.Name())
	if _, err := draft.Write(body); err != nil {
		return false, err
	}
	if err := draft.Close(); err != nil {
		return false, err
	}
	// A link fails if the name exists, whichever process made it.
	err = os.Link(draft.Name(), filepath.Join(folder, fmt.Sprintf("%x", sha256.Sum256([]byte(key)))))
	if errors.Is(err, fs.ErrExist) {
		return false, nil
	}
	return err == nil, err
}

func ExampleParseEvent() {
	folder, err := os.MkdirTemp("", "events")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(folder)
	receiver := receive(secret, folder)
	const body = `{"event":"mock_attempt.scored","created":1767225600,"data":{},"id":"x","dedupe_key":"a-1:mock_attempt.scored"}`
	for range 2 {
		request := httptest.NewRequest(http.MethodPost, "/hook", strings.NewReader(body))
		now := time.Now()
		request.Header.Set(client.SignatureHeader, fmt.Sprintf("t=%d,v1=%s", now.Unix(), sign(secret, body, now)))
		receiver(httptest.NewRecorder(), request)
	}
	// Output:
	// mock_attempt.scored is new: true
	// mock_attempt.scored is new: false
}
