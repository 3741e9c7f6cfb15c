package httpapi

import (
	"context"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/valyala/fasthttp"

	"examprep.dev/server/httpapi/endpoint"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

// TestEveryPathTellsItsMethods: each path answers the methods of its routes, HEAD with GET, and OPTIONS; any other method
// is 405, and both tell exactly these in Allow.
func TestEveryPathTellsItsMethods(t *testing.T) {
	t.Parallel()
	server, _ := newStandInServer(t)
	methods := map[string][]string{}
	for _, route := range routes(server.cfg, server.deps) {
		methods[route.Path] = append(methods[route.Path], route.Method)
		if route.Method == fasthttp.MethodGet {
			methods[route.Path] = append(methods[route.Path], fasthttp.MethodHead)
		}
	}
	for path, answered := range methods {
		allow := slices.Sorted(slices.Values(append(answered, fasthttp.MethodOptions)))
		for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "BREW", "get"} {
			got := send(server, method, targetOf(endpoint.Route{Path: path}, "service_0123abcd", ""), nil)
			switch told := string(got.Header.Peek("Allow")); {
			case method == fasthttp.MethodOptions:
				if got.StatusCode() != fasthttp.StatusNoContent || told != strings.Join(allow, ", ") || len(got.Body()) > 0 {
					t.Errorf("OPTIONS %s: %d, Allow %q, want %q", path, got.StatusCode(), told, allow)
				}
			case slices.Contains(allow, method):
				if got.StatusCode() == fasthttp.StatusMethodNotAllowed || told != "" {
					t.Errorf("%s %s: %d, Allow %q", method, path, got.StatusCode(), told)
				}
			case got.StatusCode() != fasthttp.StatusMethodNotAllowed || told != strings.Join(allow, ", "):
				t.Errorf("%s %s: %d, Allow %q, want 405, %q", method, path, got.StatusCode(), told, allow)
			}
		}
	}
	all := map[string]bool{fasthttp.MethodOptions: true}
	for _, answered := range methods {
		for _, method := range answered {
			all[method] = true
		}
	}
	got := send(server, fasthttp.MethodOptions, "*", nil)
	check.Equal(t, string(got.Header.Peek("Allow")), strings.Join(slices.Sorted(maps.Keys(all)), ", "), "Allow of OPTIONS *")
}

// TestHeadAnswersAsGetDoes: the same status and headers, Content-Length and ETag among them, and no body, on every path
// that answers GET, whether it succeeds, is not modified, or fails.
func TestHeadAnswersAsGetDoes(t *testing.T) {
	t.Parallel()
	server, _ := newStandInServer(t)
	listener := testkit.Listen(t)
	testkit.Run(t, func(ctx context.Context) error { return server.Serve(ctx, listener) })
	for _, route := range routes(server.cfg, server.deps) {
		if route.Method != fasthttp.MethodGet {
			continue
		}
		for _, c := range []struct {
			segment, query string
			header         map[string]string
		}{
			{"service_0123abcd", "", nil},
			{"missing", "", nil},
			{"x", "limit=x&country=%ff&everywhere=x&from=x", nil},
			{"x", "", map[string]string{"Accept-Encoding": "gzip"}},
			{"x", "", map[string]string{"If-None-Match": "*"}},
			{"x", "", map[string]string{"If-None-Match": "*", "Accept-Encoding": "br"}},
		} {
			target := "http://" + listener.Addr().String() + targetOf(route, c.segment, c.query)
			get, head := ask(t, http.MethodGet, target, c.header), ask(t, http.MethodHead, target, c.header)
			if get.status != head.status || !reflect.DeepEqual(get.header, head.header) || head.length != 0 {
				t.Errorf("%s %v: HEAD answers %d %v, GET %d %v", target, c.header, head.status, head.header, get.status, get.header)
			}
		}
	}
}

type exchangeResult struct {
	status, length int
	header         http.Header
}

// ask sends a request, and leaves out of the answer what differs from one to the next.
func ask(t *testing.T, method, target string, header map[string]string) exchangeResult {
	t.Helper()
	transport := &http.Transport{DisableCompression: true, DisableKeepAlives: true}
	got, body := testkit.Call(t, transport.RoundTrip, method, target, "", header)
	for _, name := range []string{"Date", "X-Request-Id"} {
		if got.Header.Get(name) == "" {
			t.Errorf("%s %s: no %s", method, target, name)
		}
		got.Header.Del(name)
	}
	return exchangeResult{got.StatusCode, len(body), got.Header}
}
