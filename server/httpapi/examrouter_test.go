package httpapi

import (
	"bytes"
	"log/slog"
	"net"
	"strings"
	"testing"

	"github.com/valyala/fasthttp"
	"pgregory.net/rapid"
)

// TestExamRouterFindsWhatTheRouterFinds: whatever the target, an examRouter finds by itself exactly what the router would
// find beneath an exam: the same operation, for the same exam.
func TestExamRouterFindsWhatTheRouterFinds(t *testing.T) {
	server, _ := newStandInServer(t)
	var log bytes.Buffer
	server.logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	both := server.newRouter()
	answered := func(handle fasthttp.RequestHandler, ctx *fasthttp.RequestCtx) string {
		log.Reset()
		handle(ctx)
		_, line, _ := strings.Cut(log.String(), "operation=")
		operation, _, _ := strings.Cut(line, " ")
		return operation
	}
	check := func(t rapid.TB, method, target string) (operation string) {
		t.Helper()
		ctx := asked(method, target)
		found := both.find(ctx)
		looked, _ := both.Lookup(string(ctx.Method()), string(ctx.URI().PathOriginal()), ctx)
		wanted, beneath := ctx.UserValue("exam_key").(string)
		if beneath = beneath && looked != nil; beneath != (found != nil) {
			t.Fatalf("%s %q: found %t, by the router %t", method, target, found != nil, beneath)
		}
		if !beneath {
			return ""
		}
		if key, _, _ := cutExamPath(ctx.URI().PathOriginal()); string(key) != wanted {
			t.Fatalf("%s %q: exam %q, of the router %q", method, target, key, wanted)
		}
		operation = answered(found, ctx)
		if of := answered(looked, asked(method, target)); operation != of || of == "" {
			t.Fatalf("%s %q: %s, of the router %s", method, target, operation, of)
		}
		return operation
	}
	for _, route := range server.routes() {
		of := ""
		if strings.HasPrefix(route.path, "/v1/exam-prep/{exam_key}/") {
			of = route.operation
		}
		for _, segment := range []string{"xx-sample", "list", "%2F", "a%20b", "..", ".", "é", "overview", ":x", "{exam_key}", "%"} {
			target := strings.ReplaceAll(route.path, "{exam_key}", segment)
			if operation := check(t, route.method, target); operation != of {
				t.Errorf("%s %s: found %q, want %q", route.method, target, operation, of)
			}
			for _, other := range []string{target + "?a=/b/c", target + "/", target + "x", "/" + target, strings.ToUpper(target), "http://host" + target, target[:len(target)-1]} {
				check(t, route.method, other)
			}
		}
	}
	part := rapid.OneOf(
		rapid.SampledFrom([]string{
			"/", "/", "/v1", "/v1/exam-prep/", "xx", "list", "/list", "/overview", "/resources", "/study-path", "/mock-exams", "/open",
			"/questions", "/submit", "/history", "..", "%2f", "?", "#", "*", "http://x", "\\",
		}),
		rapid.StringN(0, 3, 6),
	)
	targets := rapid.Map(rapid.SliceOfN(part, 0, 6), func(parts []string) string { return strings.Join(parts, "") })
	rapid.Check(t, func(t *rapid.T) {
		target := targets.Draw(t, "target")
		if rapid.Bool().Draw(t, "beneath") {
			target = examPaths + target
		}
		check(t, rapid.SampledFrom([]string{"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "CONNECT", "get", "GE", ""}).Draw(t, "method"), target)
	})
}

// asked is a request as the router sees it.
func asked(method, target string) *fasthttp.RequestCtx {
	var request fasthttp.Request
	request.Header.SetMethod(method)
	request.SetRequestURI(target)
	ctx := new(fasthttp.RequestCtx)
	ctx.Init(&request, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1}, nil)
	return ctx
}
