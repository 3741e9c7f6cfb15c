package httpapi_test

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/apitest"
	"examprep.dev/server/testkit/check"
)

func TestTheLogQuotesNothingOfABrokenRequest(t *testing.T) {
	t.Parallel()
	a := newAPI(t, apitest.Options{})
	const secret = "Xq7-learner-or-key"
	for _, raw := range []string{
		"GET /v1/exam-prep/x?learner_id=" + secret + "\r\nAuthorization: Bearer " + secret + "\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: x\r\nBroken " + secret + "\r\n\r\n",
		"GET /?" + secret + " HTTP/9.9\r\n\r\n",
		secret + "\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: " + secret + "\r\n\r\n",
	} {
		connection, err := new(net.Dialer).DialContext(t.Context(), "tcp", a.Address)
		check.NoError(t, err)
		write(t, connection, raw)
		_, _ = io.Copy(io.Discard, connection) // until the server has had enough
		_ = connection.Close()
	}
	testkit.Eventually(t, "a broken connection is logged", func() bool { return strings.Contains(a.Logs.String(), "connection failed") })
	a.get("/v1/exam-prep/list").expect(t, http.StatusOK, "the server no longer answers")
	if log := a.Logs.String(); strings.Contains(log, secret) {
		t.Errorf("the log quotes a request: %s", log)
	}
}
