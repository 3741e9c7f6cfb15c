package endpoint

import (
	"errors"
	"net"
	"testing"

	"github.com/fasthttp/router"
	"github.com/valyala/fasthttp"

	"examprep.dev/server/httpapi/apierror"
	"examprep.dev/server/testkit/check"
)

// routedExamKey routes a request for an exam's overview, and returns the exam's key that its handler reads.
func routedExamKey(ctx *fasthttp.RequestCtx) (key string, err error) {
	r := router.New()
	r.GET("/{exam_key}/overview", func(ctx *fasthttp.RequestCtx) {
		request := &Request{HTTP: ctx}
		err = request.ReadExamKey()
		key = request.ExamKey
	})
	r.Handler(ctx)
	return key, err
}

func TestExamKey(t *testing.T) {
	t.Parallel()
	for segment, want := range map[string]string{
		"xx-sample": "xx-sample", "a~b!c": "a~b!c", "%78x": "xx", "a%20b": "a b", "a%2Fb": "a/b", "100%25": "100%", "é": "é", "%C3%A9": "é",
		"": "", "%": "", "%zz": "", "%C3": "", "\xc3": "", "%00": "", "a%0Ab": "", "%7F": "", "%C2%80": "", "\u0085": "",
	} {
		key, err := routedExamKey(asked("GET", "/"+segment+"/overview"))
		if _, refused := errors.AsType[*apierror.Error](err); key != want || refused != (want == "" && segment != "") {
			t.Errorf("%q: %q, %v, want %q", segment, key, err, want)
		}
	}
}

// TestAnExamKeyOutlivesItsRequest: the next request on a connection is read into the same memory.
func TestAnExamKeyOutlivesItsRequest(t *testing.T) {
	t.Parallel()
	for _, segment := range []string{"xx-sample", "%78x-sample", "é"} {
		ctx := asked("GET", "/"+segment+"/overview")
		key, err := routedExamKey(ctx)
		if err != nil || key == "" {
			t.Fatalf("%q, %v", key, err)
		}
		before := string([]byte(key))
		clear(ctx.Request.Header.RequestURI())
		clear(ctx.URI().PathOriginal())
		check.Equal(t, key, before, "the key afterwards")
	}
}

func asked(method, target string) *fasthttp.RequestCtx {
	var request fasthttp.Request
	request.Header.SetMethod(method)
	request.SetRequestURI(target)
	ctx := new(fasthttp.RequestCtx)
	ctx.Init(&request, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1}, nil)
	return ctx
}
