package httpapi_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"examprep.dev/server/httpapi"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/apitest"
	"examprep.dev/server/testkit/check"
)

// named are the headers of an honest client, whose request has this id.
func named(id string) string { return strings.Replace(mine, ": mine\r\n", ": "+id+"\r\n", 1) }

// listing is a GET with this id.
func listing(id string) string { return listLine + named(id) + "\r\n" }

// opening is a POST with this id and more headers.
func opening(id, headers string) string { return openLine + named(id) + headers + withLength(openBody) }

// A pipeline is requests in one packet, and their answers: the status and the id of each, "new" for one that the client did
// not choose. keeps tells that the connection serves a next request.
type pipeline struct {
	name, sent string
	answers    []string
	keeps      bool
}

func pipelines() []pipeline {
	const one, three, ends = "200 one", "200 three", "Connection: close\r\n"
	expecting := strings.Replace(openLine, "1.1", "1.0", 1) + named("one") + "Expect: 100-continue\r\n"
	cut := func(name, request, answer string) pipeline { // nothing behind the first request is answered
		return pipeline{name, request + listing("two"), []string{answer}, false}
	}
	behind := func(name, sent string, answers ...string) pipeline { // two is between others
		return pipeline{name, listing("one") + sent + listing("three"), slices.Concat([]string{one}, answers, []string{three}), true}
	}
	return []pipeline{
		{"three", listing("one") + listing("two") + listing("three"), []string{one, "200 two", three}, true},
		{"twenty", strings.Repeat(listing("one"), 20), slices.Repeat([]string{one}, 20), true},
		{"posts", opening("one", "") + opening("two", ""), []string{one, "200 two"}, true},
		{"behind HEAD", strings.Replace(listing("one"), "GET", "HEAD", 1) + listing("two"), []string{"HEAD 200 one", "200 two"}, true},
		{"behind HEAD of nothing", "HEAD /nowhere HTTP/1.1\r\n" + named("one") + "\r\n" + listing("two"), []string{"HEAD 404 one", "200 two"}, true},
		{"behind a body that asks to go on", opening("one", "Expect: 100-continue\r\n") + listing("two"), []string{"100", one, "200 two"}, true},
		{"behind an expectation of another kind", opening("one", "Expect: 200-ok\r\n") + listing("two"), []string{one, "200 two"}, true},
		behind("a POST", opening("two", ""), "200 two"), behind("empty lines", "\r\n\r\n"),
		behind("OPTIONS", "OPTIONS * HTTP/1.1\r\n"+named("two")+"\r\n", "204 two"), behind("a 404", "GET /nowhere HTTP/1.1\r\n"+named("two")+"\r\n", "404 two"),
		behind("a 401", listLine+"Host: x\r\nX-Request-Id: two\r\n\r\n", "401 two"), behind("a body that nobody reads", "POST /nowhere HTTP/1.1\r\n"+named("two")+withLength(openBody), "404 two"),
		behind("a body that looks like a request", openLine+named("two")+withLength(smuggled), "400 two"),
		cut("closing", strings.Replace(listing("one"), "Host", ends+"Host", 1), one), cut("HTTP/1.0", strings.Replace(listing("one"), "1.1", "1.0", 1), one),
		cut("chunks", openLine+named("one")+"Transfer-Encoding: chunked\r\n\r\n"+chunked(openBody), one),
		cut("chunks that nobody reads", "POST /nowhere HTTP/1.1\r\n"+named("one")+"Transfer-Encoding: chunked\r\n\r\n"+chunked(openBody), "404 one"),
		cut("a body that is too long", openLine+named("one")+"Content-Length: 2000000\r\n\r\n", "413 one"),
		cut("a body on HTTP/1.0 that asks to go on", expecting+withLength(openBody), one),
		cut("a long body on HTTP/1.0 that asks to go on", expecting+"Content-Length: 2000000\r\n\r\n", "413 one"),
		// Bytes behind a good request in its packet have an id of their own.
		{"no HTTP behind", listing("one") + "GET / SPDY/3\r\nX-Request-Id: theirs\r\n\r\n", []string{one, "400 new"}, false},
		{"noise behind", listing("one") + "\x00\x01\x02\r\n\r\n", []string{one, "400 new"}, false},
	}
}

// TestPipelinedRequestsAreAnsweredInOrder: each by its own id, and none after the last that its connection serves.
func TestPipelinedRequestsAreAnsweredInOrder(t *testing.T) {
	t.Parallel()
	for _, c := range pipelines() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			httpapi.InBubble(t, hostileLimits(), nil, func(t *testing.T, b *httpapi.Bubble) {
				t.Helper()
				conn := b.Dial()
				send(conn, c.sent)
				answers := bufio.NewReader(conn)
				for i, want := range c.answers {
					expectPipelined(t, answers, want, i == len(c.answers)-1 && !c.keeps)
				}
				if !c.keeps {
					if rest, err := io.ReadAll(answers); len(rest) > 0 || err != nil {
						t.Errorf("after the answers come %q, %v", rest, err)
					}
					return
				}
				send(conn, nextRequest)
				expectNext(t, "the next request", answers)
			})
		})
	}
}

func expectPipelined(t *testing.T, answers *bufio.Reader, want string, last bool) {
	t.Helper()
	if want == "100" {
		readContinue(t, answers)
		return
	}
	method := http.MethodGet
	if rest, head := strings.CutPrefix(want, "HEAD "); head {
		method, want = http.MethodHead, rest
	}
	got, err := http.ReadResponse(answers, &http.Request{Method: method})
	check.NoErrorf(t, err, "no answer, want %s", want)
	body, err := io.ReadAll(got.Body)
	check.NoError(t, err)
	_ = got.Body.Close()
	checkAnswer(t, method, "", response{got.StatusCode, got.Header, string(body), got.Close})
	id := got.Header.Get("X-Request-Id")
	if uuid.Validate(id) == nil {
		id = "new"
	}
	check.Equal(t, strconv.Itoa(got.StatusCode)+" "+id, want, "status and id of the next answer")
	check.Equal(t, got.Close, last, "whether the answer %s announces the end", want)
}

// TestARequestThatDoesNotPassIsNotToldToGoOn: its client gets the final response and need not send the body. Others are told to go on.
func TestARequestThatDoesNotPassIsNotToldToGoOn(t *testing.T) {
	t.Parallel()
	list := strings.Replace(listLine, "GET", "POST", 1)
	for _, c := range []struct {
		name, line, key, framing string
		status                   int
		goesOn                   bool
	}{
		{"a bad key and a long body", openLine, "guessed", "Content-Length: 2000000", http.StatusUnauthorized, false},
		{"a bad key", openLine, "guessed", "Content-Length: 20", http.StatusUnauthorized, false},
		{"a bad key and chunks", openLine, "guessed", "Transfer-Encoding: chunked", http.StatusUnauthorized, false},
		{"a key without an allowance left", openLine, "exhausted", "Content-Length: 20", http.StatusTooManyRequests, false},
		{"a good key and a long body", openLine, "KEY", "Content-Length: 2000000", http.StatusRequestEntityTooLarge, false},
		{"a good key and a method without a body", list, "KEY", "Content-Length: 20", http.StatusMethodNotAllowed, false},
		{"a good key", openLine, "KEY", "Content-Length: 20", http.StatusBadRequest, true},
	} {
		for _, expect := range []string{"Expect: 100-continue\r\n", "expect: 100-CONTINUE\r\n"} {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				httpapi.InBubble(t, httpapi.Config{}, nil, func(t *testing.T, b *httpapi.Bubble) {
					t.Helper()
					conn, began := b.Dial(), time.Now()
					reader := bufio.NewReader(conn)
					send(conn, c.line+strings.ReplaceAll(mine, "KEY", c.key)+expect+c.framing+"\r\n\r\n")
					if c.goesOn {
						readContinue(t, reader)
						send(conn, strings.Repeat(" ", 20))
					}
					got := readResponse(t, reader, http.MethodPost)
					if got.status != c.status || got.closes == c.goesOn || got.header.Get("X-Request-Id") != "mine" {
						t.Errorf("%d %v, closing: %v; want %d", got.status, got.header, got.closes, c.status)
					}
					check.Equal(t, time.Since(began), 0, "time until the answer")
					if c.goesOn {
						send(conn, listLine+mine+"\r\n")
						check.Equal(t, readResponse(t, reader, http.MethodGet).status, http.StatusOK, "status of the next request")
					}
				})
			})
		}
	}
}

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
