package play

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/valyala/fasthttp"

	"examprep.dev/hack/record/normalise"
	"examprep.dev/hack/record/recording"
	"examprep.dev/hack/record/script"
	"examprep.dev/hack/record/wire"
)

const (
	longestRequest = 2000
	longestBody    = 64 << 10
)

var (
	usesSession = regexp.MustCompile(`__Host-examprep_session="?<<`)
	// allowance is what is left of a rate limit. All requests of a session share one, so it depends on the time between them.
	allowance = regexp.MustCompile(`^(RateLimit-Remaining|RateLimit-Reset): .*`)
)

// record normalises one response.
func record(scope *normalise.Scope, response wire.Response, exchange script.Exchange) recording.Response {
	recorded := recording.Response{Status: response.Status, Headers: scope.Headers(response)}
	if usesSession.MatchString(strings.Join(exchange.Send, "")) {
		for i, line := range recorded.Headers {
			recorded.Headers[i] = allowance.ReplaceAllString(line, "$1: <of the session>")
		}
	}
	body, coding := decode(response)
	recorded.Coding = coding
	switch {
	case len(body) == 0:
	case exchange.Digest && response.Code() == fasthttp.StatusOK:
		recorded.Body = digest(body)
	default:
		recorded.Body = scope.Text(printable(body, longestBody))
	}
	return recorded
}

// decode takes the content coding off a body. A body that cannot be decoded stays as it is, and the coding tells so.
func decode(response wire.Response) (body []byte, coding string) {
	coding = response.Get("Content-Encoding")
	if coding == "" || len(response.Body) == 0 {
		return response.Body, ""
	}
	var err error
	switch strings.ToLower(coding) {
	case "br":
		body, err = fasthttp.AppendUnbrotliBytes(nil, response.Body)
	case "zstd":
		body, err = fasthttp.AppendUnzstdBytes(nil, response.Body)
	case "gzip":
		body, err = fasthttp.AppendGunzipBytes(nil, response.Body)
	default:
		return response.Body, coding + " (unknown)"
	}
	if err != nil {
		return response.Body, coding + " (broken)"
	}
	return body, coding
}

// printable returns text as it is, and other bytes in Go's quotes. It shortens long content to the beginning and a digest.
func printable(content []byte, longest int) string {
	tail := ""
	if len(content) > longest {
		const kept = 200
		tail = fmt.Sprintf("… (%s)", digest(content))
		content = content[:kept]
		for len(content) > 0 && !utf8.Valid(content) && len(content) > kept-utf8.UTFMax {
			content = content[:len(content)-1]
		}
	}
	if utf8.Valid(content) {
		return string(content) + tail
	}
	return "bytes:" + strconv.Quote(string(content)) + tail
}

func digest(content []byte) string {
	sum := sha256.Sum256(content)
	return fmt.Sprintf("%d bytes, sha256:%s", len(content), hex.EncodeToString(sum[:]))
}
