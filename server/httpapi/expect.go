package httpapi

import (
	"strings"

	"github.com/valyala/fasthttp"
)

// readHeader is fasthttp's HeaderReceived hook: it makes fasthttp understand Expect as RFC 9110 §10.1.1 means it, in any
// case, and neither from HTTP/1.0 nor without a body.
func readHeader(header *fasthttp.RequestHeader) fasthttp.RequestConfig {
	if expect := header.PeekCanonical(fieldExpect); len(expect) > 0 {
		switch {
		case !header.IsHTTP11() || header.ContentLength() == noBody:
			header.Del(fasthttp.HeaderExpect)
		case strings.EqualFold(string(expect), expectContinue):
			header.Set(fasthttp.HeaderExpect, expectContinue)
		}
	}
	return fasthttp.RequestConfig{}
}

const (
	// noBody is the length that fasthttp gives a request without Content-Length and Transfer-Encoding.
	noBody         = -2
	expectContinue = "100-continue"
)
