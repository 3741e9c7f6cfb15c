package endpoint

import (
	"bufio"
	"slices"
	"strings"
	"testing"

	"github.com/valyala/fasthttp"
)

// TestFieldsAreFoundAsTheyAreNamed: each of the fields that are looked up by the name that fasthttp gives them, on as many
// lines as there are, empty ones too, and however its sender spelled it.
func TestFieldsAreFoundAsTheyAreNamed(t *testing.T) {
	t.Parallel()
	for _, field := range []string{fasthttp.HeaderAcceptEncoding, fasthttp.HeaderIfNoneMatch} {
		name := field
		for sent, want := range map[string][]string{
			"":                          nil,
			"Other: 1":                  nil,
			name + ": 1":                {"1"},
			strings.ToLower(name) + ":": {""},
			strings.ToUpper(name) + ": \r\nOther: 2\r\n" + strings.ToLower(name) + ":1": {"", "1"},
			name + ":1\r\n" + name + ":":   {"1", ""},
			"X" + name + ":1\r\nY:" + name: nil,
		} {
			var header fasthttp.RequestHeader
			if err := header.Read(bufio.NewReader(strings.NewReader("GET / HTTP/1.1\r\nHost: x\r\n" + sent + strings.Repeat("\r\n", min(len(sent), 1)) + "\r\n"))); err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, line := range header.PeekAll(field) {
				got = append(got, string(line))
			}
			if !slices.Equal(got, want) {
				t.Errorf("%q: %s is %q, want %q", sent, name, got, want)
			}
			if first := string(header.Peek(field)); len(want) > 0 && first != want[0] {
				t.Errorf("%q: %s is %q, want %q", sent, name, first, want[0])
			}
		}
	}
}

// TestBodiesOfResponsesUnderWayShareNoMemory: until fasthttp has sent a response, which resets the request, no other one has its buffer.
func TestBodiesOfResponsesUnderWayShareNoMemory(t *testing.T) {
	t.Parallel()
	const responses = 8
	exchanges := make([]fasthttp.RequestCtx, responses)
	for range 2 {
		for i := range exchanges {
			r := Request{HTTP: &exchanges[i]}
			r.Append(func(dst []byte) []byte { return append(dst, byte('0'+i)) })
		}
		for i := range exchanges {
			if got, want := string(exchanges[i].Response.Body()), string(rune('0'+i)); got != want {
				t.Errorf("body %d is %s", i, got)
			}
			exchanges[i].Request.Reset()
			exchanges[i].Response.Reset()
		}
	}
}
