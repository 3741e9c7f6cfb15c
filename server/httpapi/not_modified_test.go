package httpapi

import (
	"bytes"
	"net"
	"testing"

	"github.com/valyala/fasthttp"
)

// TestNotModifiedTellsWhatItStandsFor: a 304 has the fields of its 200 that caches live by (RFC 9110 §15.4.5), and none
// of the content that it lacks.
func TestNotModifiedTellsWhatItStandsFor(t *testing.T) {
	t.Parallel()
	server, _ := newStandInServer(t)
	get := func(coding, condition string) *fasthttp.Response {
		var request fasthttp.Request
		request.SetRequestURI("http://localhost/v1/exam-prep/x/overview")
		request.Header.Set("Accept-Encoding", coding)
		request.Header.Set("If-None-Match", condition)
		var ctx fasthttp.RequestCtx
		ctx.Init(&request, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1}, nil)
		ctx.Response.Header.SetNoDefaultContentType(true) // as the server does
		server.http.Handler(&ctx)
		return &ctx.Response
	}
	for _, coding := range []string{"identity", "gzip", "br", "zstd"} {
		whole := get(coding, "")
		etag := string(whole.Header.Peek("Etag"))
		for _, condition := range []string{etag, "W/" + etag, `"x", ` + etag, "*"} {
			not := get(coding, condition)
			if not.StatusCode() != fasthttp.StatusNotModified || len(not.Body()) > 0 {
				t.Fatalf("%s, If-None-Match %s: %d with %d bytes", coding, condition, not.StatusCode(), len(not.Body()))
			}
			for _, name := range []string{"Etag", "Cache-Control", "Vary"} {
				if got, want := not.Header.Peek(name), whole.Header.Peek(name); len(want) == 0 || !bytes.Equal(got, want) {
					t.Errorf("%s: %s is %q in 304 and %q in 200", coding, name, got, want)
				}
			}
			if len(not.Header.ContentType())+len(not.Header.ContentEncoding()) > 0 {
				t.Errorf("%s: 304 describes content: %s", coding, &not.Header)
			}
		}
		if other := get(coding, etag[:len(etag)-1]+`x"`); other.StatusCode() != fasthttp.StatusOK {
			t.Errorf("%s: %d for another ETag", coding, other.StatusCode())
		}
	}
}
