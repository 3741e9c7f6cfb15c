package testkit

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"examprep.dev/server/testkit/check"
)

// Call sends a request and returns the response, with its body. A header with an empty value is not sent, and Host is the
// request's host. send is a client's Do or a transport's RoundTrip.
func Call(
	t testing.TB, send func(*http.Request) (*http.Response, error), method, address, body string, header map[string]string,
) (response *http.Response, content string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, address, strings.NewReader(body))
	check.NoError(t, err)
	for name, value := range header {
		if value != "" {
			request.Header.Set(name, value)
		}
	}
	if host := header["Host"]; host != "" {
		request.Host = host
	}
	if response, err = send(request); err != nil {
		t.Fatalf("%s %s: %v", method, address, err)
	}
	return response, Body(t, response)
}

// Body reads and closes the body of a response.
func Body(t testing.TB, response *http.Response) string {
	t.Helper()
	defer func() { _ = response.Body.Close() }()
	content, err := io.ReadAll(response.Body)
	check.NoError(t, err)
	return string(content)
}

// OneAtATime returns a middleware under which all handlers that it wraps serve one request at a time, for handlers that share
// their state without a lock.
func OneAtATime() func(http.Handler) http.Handler {
	var mu sync.Mutex
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			defer mu.Unlock()
			next.ServeHTTP(w, r)
		})
	}
}
