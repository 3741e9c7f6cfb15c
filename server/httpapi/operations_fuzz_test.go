package httpapi

import (
	"bytes"
	"encoding/json"
	"net"
	"net/url"
	"strings"
	"testing"

	"github.com/valyala/fasthttp"

	"examprep.dev/server/httpapi/apierror"
	"examprep.dev/server/httpapi/endpoint"
)

// FuzzOperations sends any path parameter, query and body to any operation, as far as the handler: none panics, answers
// 5xx or without an Error body, or lets through what its limits exclude (the stand-in behind it complains of that).
func FuzzOperations(f *testing.F) {
	server, behind := newStandInServer(f)
	routes := routes(server.cfg, server.deps)
	for i := range routes {
		for _, seed := range []struct{ segment, query, body string }{
			{"service_0123abcd", "limit=5&offset=1&learner_id=a%C3%A9", `{"paper_id":"xx-sample","question_offset":1e0,"question_limit":3,"learner_id":"x"}`},
			{"0197a3a2-0000-7000-8000-000000000000", "country=spain&country_code=br", `{"attempt_id":"0197a3a2","answers":{"1:1":"A","2":""},"status":"abandoned"}`},
			{"é\x00%", "limit=&limit=2&everywhere=true", `{"name":"\ud83d\ude00","expires_at":"2030-01-01T00:00:00Z","overlap_seconds":86400}`},
			{"missing", "from=2026-01-01&to=2026-01-31&key_prefix=service_0123abcd", `{"url":"https://x.example/","events":["exam.content_updated"],"description":null,"status":"disabled"}`},
			{"", "before=service_0123abcd&state=a&code=b", `{"answers":{"1":"A","1":"B"},"x":[[{"y":1,"y":2}]]}`},
			{"x", "%zz=%zz&before=0197a3a2-0000-7000-8000-000000000000", ``},
		} {
			f.Add(uint8(i), seed.segment, seed.query, []byte(seed.body))
		}
	}
	f.Fuzz(func(t *testing.T, pick uint8, segment, query string, body []byte) {
		route := routes[int(pick)%len(routes)]
		behind.complaint.Store(nil)
		response := send(server, route.Method, targetOf(route, segment, query), body)
		if complaint := behind.complaint.Load(); complaint != nil {
			t.Fatalf("%s lets through that %s", route.Operation, *complaint)
		}
		checkDecoded(t, route, response)
	})
}

func send(server *Server, method, target string, body []byte) *fasthttp.Response {
	var request fasthttp.Request
	request.Header.SetMethod(method)
	request.SetRequestURI(target)
	request.Header.SetContentType("application/json")
	if len(body) > 0 { // unread, as fasthttp hands it over
		request.SetBodyStream(bytes.NewReader(body), len(body))
	}
	var ctx fasthttp.RequestCtx
	ctx.Init(&request, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1}, nil)
	server.http.Handler(&ctx)
	return &ctx.Response
}

// targetOf fills the path's parameters with segment. What no request line can hold is encoded, and so arrives all the
// same.
func targetOf(route endpoint.Route, segment, query string) string {
	var path strings.Builder
	for part := range strings.SplitSeq(strings.TrimPrefix(route.Path, "/"), "/") {
		if path.WriteByte('/'); strings.HasPrefix(part, "{") {
			part = url.PathEscape(segment)
		}
		path.WriteString(part)
	}
	path.WriteByte('?')
	for _, c := range []byte(query) {
		if c <= ' ' || c == '#' || c >= 0x7f {
			path.WriteString(url.QueryEscape(string([]byte{c})))
		} else {
			path.WriteByte(c)
		}
	}
	return path.String()
}

func checkDecoded(t *testing.T, route endpoint.Route, response *fasthttp.Response) {
	t.Helper()
	status := response.StatusCode()
	if status >= fasthttp.StatusInternalServerError {
		t.Fatalf("%s answers %d", route.Operation, status)
	}
	if status < fasthttp.StatusBadRequest {
		return
	}
	var failure struct {
		Error  string `json:"error"`
		Detail string `json:"detail"`
		Errors []struct {
			Field  string `json:"field"`
			Detail string `json:"detail"`
		} `json:"errors"`
	}
	if err := json.Unmarshal(response.Body(), &failure); err != nil || failure.Error == "" || failure.Detail == "" {
		t.Fatalf("%s answers %d %s", route.Operation, status, response.Body())
	}
	if failure.Error == apierror.CodeValidationFailed && len(failure.Errors) == 0 && failure.Detail != "The body must be a JSON object." {
		t.Fatalf("%s names no field: %s", route.Operation, response.Body())
	}
	for _, field := range failure.Errors {
		if field.Field == "" || field.Detail == "" {
			t.Fatalf("%s names no field: %s", route.Operation, response.Body())
		}
	}
}
