package httpapi_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/valyala/fasthttp"

	"examprep.dev/api/openapi"
	"examprep.dev/api/openapi/openapitest"
	"examprep.dev/server/testkit/check"
)

// contract is the document that every answer of this suite is held against.
var contract = sync.OnceValues(func() (*openapitest.Document, error) {
	text, err := openapi.JSON()
	if err != nil {
		return nil, err
	}
	return openapitest.Load(text)
})

func document(t testing.TB) *openapitest.Document {
	t.Helper()
	d, err := contract()
	check.NoError(t, err)
	return d
}

// checkAnswer checks what every answer owes, and holds the answer against the contract. The target is empty when it could
// not be read, or is not known.
func checkAnswer(t testing.TB, method, target string, r response) {
	t.Helper()
	d := document(t)
	checkAnswerBy(t, func(e openapitest.Exchange) error { _, err := d.Check(e); return err }, method, target, r)
}

func checkAnswerBy(t testing.TB, check func(openapitest.Exchange) error, method, target string, r response) {
	t.Helper()
	checkEnvelope(t, method, r)
	if r.status < http.StatusBadRequest && besideContract(target) {
		return
	}
	body, err := decoded(r)
	if err == nil {
		err = check(openapitest.Exchange{Method: method, Target: target, Status: r.status, Header: r.header, Body: body})
	}
	if err != nil {
		t.Errorf("against the contract: %s %s: %v", method, target, err)
	}
}

// checkExchange is checkAnswer for what net/http knows of an exchange.
func checkExchange(t testing.TB, got *http.Response, body []byte) {
	t.Helper()
	checkAnswer(t, got.Request.Method, got.Request.URL.RequestURI(), response{got.StatusCode, got.Header, string(body), got.Close})
}

func besideContract(target string) bool {
	path, _, _ := strings.Cut(target, "?")
	return path == "/" || path == "/docs" || strings.HasPrefix(path, "/docs/") || path == "/v1/openapi.json"
}

// decoded undoes the answer's Content-Encoding.
func decoded(r response) ([]byte, error) {
	body := []byte(r.body)
	if len(body) == 0 {
		return nil, nil
	}
	switch coding := r.header.Get("Content-Encoding"); coding {
	case "":
		return body, nil
	case "gzip":
		return fasthttp.AppendGunzipBytes(nil, body)
	case "br":
		return fasthttp.AppendUnbrotliBytes(nil, body)
	case "zstd":
		return fasthttp.AppendUnzstdBytes(nil, body)
	default:
		return nil, fmt.Errorf("the Content-Encoding %q is unknown", coding)
	}
}
