package httpapi_test

import (
	"bufio"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"examprep.dev/server/httpapi"
	"examprep.dev/server/testkit/check"
)

// A hostileRequest is bytes that no good client sends, and what becomes of them.
type hostileRequest struct {
	name, sent string
	// status and code are of the one answer; status 0: the connection ends without one.
	status int
	code   string
	// keeps tells that the connection serves a next request.
	keeps bool
	// ends tells that the client sends no more: it closes its half of the connection.
	ends bool
	// nameless tells that the answer does not bear the id which the client sent, "mine", but a new one: its headers were not
	// read.
	nameless bool
}

// unread is a request whose headers, or whose body's first byte, fasthttp cannot read: its answer has a new id.
func unread(r hostileRequest) hostileRequest {
	r.nameless = true
	return r
}

const (
	listLine = "GET /v1/exam-prep/list HTTP/1.1\r\n"
	openLine = "POST " + examPath + "/mock-exams/open HTTP/1.1\r\n"
	// mine are the headers of an honest client; KEY is its key.
	mine     = "Host: x\r\nX-Request-Id: mine\r\nAuthorization: Bearer KEY\r\nContent-Type: application/json\r\n"
	openBody = `{"paper_id":"` + testPaper + `"}`
	// smuggled is what is a request to us, and may be the rest of a body to somebody in front.
	smuggled = listLine + "Host: x\r\nX-Request-Id: smuggled\r\n\r\n"
)

func chunked(body string) string {
	return strconv.FormatInt(int64(len(body)), 16) + "\r\n" + body + "\r\n0\r\n\r\n"
}

func withLength(body string) string {
	return "Content-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n" + body
}

func hostileRequestLines() []hostileRequest {
	const bad = "bad_request"
	line := func(name, line string) hostileRequest {
		return hostileRequest{name: name, sent: line + "\r\n" + mine + "\r\n", status: 400, code: bad}
	}
	return []hostileRequest{
		{name: "nothing", sent: "", ends: true},
		{name: "empty lines", sent: "\r\n\r\n", ends: true},
		{name: "a TLS hello", sent: "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", status: 400, code: bad, nameless: true},
		{name: "noise", sent: "\x00\xff\x00\xff\r\n\r\n", status: 400, code: bad, nameless: true},
		{name: "HTTP/0.9", sent: "GET /v1/exam-prep/list\r\n", status: 400, code: bad, nameless: true},
		{name: "HTTP/2 by its preface", sent: "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", status: 400, code: bad, nameless: true},
		{name: "half a request line", sent: "GET /v1/exam-pr", status: 400, code: bad, ends: true, nameless: true},
		{name: "half a header", sent: listLine + "Host: x\r\nX-Request-Id: mi", status: 400, code: bad, ends: true, nameless: true},
		{name: "headers without an end", sent: listLine + mine, status: 400, code: bad, ends: true, nameless: true},
		{name: "headers that never end", sent: listLine + mine, status: 408, code: "request_timeout", nameless: true},
		line("HTTP/0.9 by name", "GET /v1/exam-prep/list HTTP/0.9"), line("HTTP/2.0 by name", "GET /v1/exam-prep/list HTTP/2.0"),
		unread(line("HTTP/3", "GET /v1/exam-prep/list HTTP/3")), unread(line("HTTP/1", "GET /v1/exam-prep/list HTTP/1")),
		unread(line("HTTP/1.10", "GET /v1/exam-prep/list HTTP/1.10")), unread(line("http in small letters", "GET /v1/exam-prep/list http/1.1")),
		unread(line("another protocol", "GET /v1/exam-prep/list SPDY/3.1")), unread(line("no version", "GET /v1/exam-prep/list")),
		unread(line("no target", "GET  HTTP/1.1")), unread(line("only a method", "GET")), unread(line("no method", " /v1/exam-prep/list HTTP/1.1")),
		unread(line("a target of two words", "GET /v1/exam-prep/list x HTTP/1.1")), unread(line("two spaces", "GET  /v1/exam-prep/list HTTP/1.1")),
		unread(line("a space behind the version", "GET /v1/exam-prep/list HTTP/1.1 ")), unread(line("a tab", "GET\t/v1/exam-prep/list\tHTTP/1.1")),
		unread(line("a method of noise", "G\x01T /v1/exam-prep/list HTTP/1.1")), unread(line("a method in brackets", "(GET) /v1/exam-prep/list HTTP/1.1")),
		unread(line("NUL in the target", "GET /v1/exam-prep/\x00 HTTP/1.1")), unread(line("a bare CR in the target", "GET /v1/exam-prep/li\rst HTTP/1.1")),
		unread(line("a target without a slash", "GET v1/exam-prep/list HTTP/1.1")), line("a fragment", "GET /v1/exam-prep/list#x HTTP/1.1"),
		unread(line("an asterisk that is no OPTIONS", "GET * HTTP/1.1")), unread(line("a scheme of noise", "GET ht!tp://x/v1/exam-prep/list HTTP/1.1")),
		line("a host of noise", "GET http://[::/v1/exam-prep/list HTTP/1.1"),
	}
}

func hostileTargets() []hostileRequest {
	get := func(name, target string, status int, code string) hostileRequest {
		return hostileRequest{name: name, sent: "GET " + target + " HTTP/1.1\r\n" + mine + "\r\n", status: status, code: code, keeps: true}
	}
	method := func(method, target string, status int, code string) hostileRequest {
		return hostileRequest{name: method + " " + target, sent: method + " " + target + " HTTP/1.1\r\n" + mine + "\r\n", status: status, code: code, keeps: true}
	}
	return []hostileRequest{
		get("absolute form", "http://elsewhere/v1/exam-prep/list", 200, ""), get("absolute form of another scheme", "gopher://x/v1/exam-prep/list", 200, ""),
		get("absolute form without a path", "http://x", 404, "not_found"), get("a URL in the query", "/v1/exam-prep/list?country=http://x/", 200, ""),
		get("percent and nothing", "/v1/exam-prep/%/overview", 404, "exam_not_found"), get("percent and no digits", "/v1/exam-prep/%zz/overview", 404, "exam_not_found"),
		get("an encoded NUL", "/v1/exam-prep/%00/overview", 404, "exam_not_found"), get("half a character", "/v1/exam-prep/%c3/overview", 404, "exam_not_found"),
		get("bytes beyond ASCII", "/v1/exam-prep/\xc3\xa9/overview", 404, "exam_not_found"), get("no exam key", "/v1/exam-prep//overview", 404, "exam_not_found"),
		get("an encoded slash", "/v1/exam-prep/a%2f..%2flist", 404, "not_found"), get("dots", "/v1/exam-prep/../../etc/passwd", 404, "not_found"),
		get("encoded dots", "/v1/exam-prep/%2e%2e/list", 404, "not_found"), get("a backslash", "/v1\\exam-prep\\list", 404, "not_found"),
		get("a slash and an asterisk", "/*", 405, "method_not_allowed"), get("two slashes first", "//v1/exam-prep/list", 404, "not_found"),
		get("a query that is no encoding", "/v1/exam-prep/list?country=%zz", 400, "validation_failed"), get("a query beyond UTF-8", "/v1/exam-prep/list?country=%ff", 400, "validation_failed"),
		get("raw bytes in a query", "/v1/exam-prep/list?country=\xff", 400, "validation_failed"), get("an encoded NUL in a query", "/v1/exam-prep/list?country=%00", 400, "validation_failed"),
		get("a parameter twice", "/v1/exam-prep/list?country=a&country=b", 400, "validation_failed"), get("a parameter of semicolons", "/v1/exam-prep/list?country_code=es;x", 400, "validation_failed"),
		method("TRACE", "/v1/exam-prep/list", 405, "method_not_allowed"), method("CONNECT", "x:443", 404, "not_found"),
		method("FROB", "/v1/exam-prep/list", 405, "method_not_allowed"), method("get", "/v1/exam-prep/list", 405, "method_not_allowed"),
		method("FROB", "/nowhere", 404, "not_found"), method("OPTIONS", "*", 204, ""), method("OPTIONS", "/v1/exam-prep/list", 204, ""), method("OPTIONS", "/*", 204, ""),
	}
}

func hostileHeaders() []hostileRequest {
	const bad = "bad_request"
	header := func(name, header string, status int, code string) hostileRequest {
		return hostileRequest{name: name, sent: listLine + mine + header + "\r\n\r\n", status: status, code: code}
	}
	kept := func(name, header string) hostileRequest {
		return hostileRequest{name: name, sent: listLine + mine + header + "\r\n\r\n", status: 200, keeps: true}
	}
	return []hostileRequest{
		{name: "no host", sent: listLine + strings.TrimPrefix(mine, "Host: x\r\n") + "\r\n", status: 400, code: bad, nameless: true},
		{name: "an empty host", sent: listLine + strings.Replace(mine, "Host: x", "Host: ", 1) + "\r\n", status: 400, code: bad, nameless: true},
		{name: "a host of noise", sent: listLine + strings.Replace(mine, "Host: x", "Host: [::", 1) + "\r\n", status: 400, code: bad},
		{name: "a first line that is folded", sent: listLine + " " + mine + "\r\n", status: 400, code: bad, nameless: true},
		{name: "a bare line feed", sent: listLine + "A: b\n" + mine + "\r\n", status: 400, code: bad},
		{name: "bare line feeds all over", sent: strings.ReplaceAll(listLine+mine+"\r\n", "\r\n", "\n"), status: 408, code: "request_timeout", nameless: true},
		unread(header("two hosts", "Host: x", 400, bad)), unread(header("a space before the colon", "a : c", 400, bad)),
		unread(header("an empty name", ": c", 400, bad)), unread(header("no colon", "abc", 400, bad)), unread(header("a bare CR", "a: b\rc", 400, bad)),
		unread(header("a NUL", "a: \x00", 400, bad)), unread(header("a name beyond ASCII", "\xe9: c", 400, bad)),
		header("a folded line", "a: b\r\n c", 400, bad), header("a line folded with a tab", "a: b\r\n\tc", 400, bad),
		header("a folded length", "Content-Length:\r\n 3\r\n\r\n{}", 400, bad), header("a bare line feed at last", "a: b\nc: d", 400, bad),
		unread(header("a long header", "a: "+strings.Repeat("a", 5000), 431, "request_header_fields_too_large")), unread(header("many headers", strings.Repeat("a: b\r\n", 1000)+"a: b", 431, "request_header_fields_too_large")),
		{name: "a long target", sent: "GET /" + strings.Repeat("a", 5000) + " HTTP/1.1\r\n" + mine + "\r\n", status: 431, code: "request_header_fields_too_large", nameless: true},
		kept("a value beyond ASCII", "a: \xe9"), kept("a name of two words", "a b: c"), kept("an expectation without a body", "Expect: 100-continue"), kept("an expectation of another kind", "Expect: 200-ok"),
		kept("an upgrade to HTTP/2", "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA"), kept("a range", "Range: bytes=0-1"),
		kept("an identity of no coding", "Accept-Encoding: ,;q=,gzip;;;"), kept("a trailer without chunks", "Trailer: a"), kept("cookies of noise", "Cookie: =;;=a;\"\\"),
		{name: "closing, in capitals", sent: listLine + mine + "Connection: CLOSE\r\n\r\n", status: 200},
		{name: "closing, in a list", sent: listLine + mine + "Connection: TE, close\r\n\r\n", status: 200},
		{name: "HTTP/1.0", sent: "GET /v1/exam-prep/list HTTP/1.0\r\n" + mine + "\r\n", status: 200},
		{name: "empty lines first", sent: "\r\n\r\n" + listLine + mine + "\r\n", status: 200, keeps: true},
	}
}

func hostileBodies() []hostileRequest {
	const bad = "bad_request"
	framed := func(name, framing, body string, status int, code string) hostileRequest {
		return hostileRequest{name: name, sent: openLine + mine + framing + "\r\n\r\n" + body, status: status, code: code}
	}
	cut := func(name, framing, body string) hostileRequest {
		return hostileRequest{name: name, sent: openLine + mine + framing + "\r\n\r\n" + body, status: 400, code: bad, ends: true}
	}
	kept := func(name, framing, body string, status int, code string) hostileRequest {
		return hostileRequest{name: name, sent: openLine + mine + framing + "\r\n\r\n" + body, status: status, code: code, keeps: true}
	}
	const chunks = "Transfer-Encoding: chunked"
	return []hostileRequest{
		unread(framed("two equal lengths", "Content-Length: 2\r\nContent-Length: 2", "{}", 400, bad)), unread(framed("two lengths", "Content-Length: 2\r\nContent-Length: 3", "{}", 400, bad)),
		unread(framed("a list of lengths", "Content-Length: 2, 2", "{}", 400, bad)), framed("length and chunks", "Content-Length: 2\r\n"+chunks, "0\r\n\r\n", 400, bad),
		framed("chunks and length", chunks+"\r\nContent-Length: 2", "0\r\n\r\n", 400, bad), unread(framed("a negative length", "Content-Length: -2", "{}", 400, bad)),
		unread(framed("a length with a plus", "Content-Length: +2", "{}", 400, bad)), unread(framed("a hexadecimal length", "Content-Length: 0x2", "{}", 400, bad)),
		unread(framed("a length that is none", "Content-Length: two", "{}", 400, bad)), unread(framed("an empty length", "Content-Length:", "{}", 400, bad)),
		unread(framed("a length beyond every integer", "Content-Length: 99999999999999999999", "{", 400, bad)), unread(framed("a length in two words", "Content-Length: 1 2", "{}", 400, bad)),
		unread(framed("a length with a space before the colon", "Content-Length : 2", "{}", 400, bad)), unread(framed("a coding with a space before the colon", "Transfer-Encoding : chunked", "0\r\n\r\n", 400, bad)),
		unread(framed("an unknown coding", "Transfer-Encoding: gzip", "{}", 400, bad)), unread(framed("a coding on the way to chunks", "Transfer-Encoding: gzip, chunked", "0\r\n\r\n", 400, bad)),
		framed("the coding that is none", "Transfer-Encoding: identity", "{}", 400, bad), unread(framed("chunks twice", chunks+"\r\n"+chunks, "0\r\n\r\n", 400, bad)),
		unread(framed("chunks in a list twice", "Transfer-Encoding: chunked, chunked", "0\r\n\r\n", 400, bad)), unread(framed("chunks misspelt", "Transfer-Encoding: xchunked", "0\r\n\r\n", 400, bad)),
		unread(framed("chunks in quotes", `Transfer-Encoding: "chunked"`, "0\r\n\r\n", 400, bad)), unread(framed("chunks behind a vertical tab", "Transfer-Encoding: \x0bchunked", "0\r\n\r\n", 400, bad)),
		framed("folded chunks", "Transfer-Encoding:\r\n chunked", "0\r\n\r\n", 400, bad), unread(framed("an empty coding", "Transfer-Encoding:", "{}", 400, bad)),
		unread(framed("chunks and the coding that is none", chunks+"\r\nTransfer-Encoding: identity", "0\r\n\r\n", 400, bad)),
		{name: "chunks in HTTP/1.0", sent: strings.Replace(openLine, "1.1", "1.0", 1) + mine + chunks + "\r\n\r\n" + chunked(openBody), status: 400, code: bad, nameless: true},

		framed("a chunk of no size", chunks, "\r\n\r\n", 400, bad), framed("a chunk of letters", chunks, "xyz\r\n{}\r\n0\r\n\r\n", 400, bad),
		framed("a negative chunk", chunks, "-2\r\n{}\r\n0\r\n\r\n", 400, bad), framed("a chunk that goes round", chunks, "ffffffffffffffff1\r\n{}\r\n", 400, bad),
		framed("a hexadecimal chunk by prefix", chunks, "0x2\r\n{}\r\n0\r\n\r\n", 400, bad), framed("a chunk longer than it says", chunks, "2\r\n{}}\r\n0\r\n\r\n", 400, bad),
		framed("chunks in bare line feeds", chunks, "2\n{}\n0\n\n", 400, bad), framed("a bare line feed in an extension", chunks, "2;a\n{}\r\n0\r\n\r\n", 400, bad),
		framed("a forbidden trailer", chunks, "0\r\nContent-Length: 3\r\n\r\n", 400, bad), framed("a trailer of noise", chunks, "0\r\na\x00: b\r\n\r\n", 400, bad),
		framed("long trailers", chunks, "0\r\na: "+strings.Repeat("a", 5000)+"\r\n\r\n", 431, "request_header_fields_too_large"),
		framed("a long body announced", "Content-Length: 1000000000", "{", 413, "payload_too_large"), framed("a long body asked for", "Expect: 100-continue\r\nContent-Length: 1000000000", "{", 413, "payload_too_large"),
		framed("a long body in chunks", chunks, strings.Repeat("fff\r\n"+strings.Repeat(" ", 4095)+"\r\n", 20), 413, "payload_too_large"), framed("one long chunk", chunks, "3b9aca00\r\n"+strings.Repeat(" ", 100_000), 413, "payload_too_large"),
		unread(framed("a body that never comes", "Content-Length: 2", "", 408, "request_timeout")), framed("a body that stops", "Content-Length: 20", `{"paper`, 408, "request_timeout"),
		framed("chunks that never come", chunks, "", 408, "request_timeout"), framed("chunks that stop", chunks, "5\r\n{", 408, "request_timeout"),
		unread(cut("a body cut off at once", "Content-Length: 2", "")), cut("a body cut off", "Content-Length: 20", `{"paper`), cut("chunks cut off at once", chunks, ""),
		cut("chunks cut off in a size", chunks, "5"), cut("chunks cut off in a chunk", chunks, "5\r\n{"), cut("chunks cut off between two", chunks, chunked(openBody)[:len(chunked(openBody))-5]),
		cut("chunks cut off in the trailer", chunks, "2\r\n{}\r\n0\r\n"),

		kept("a length with zeros", "Content-Length: 0000000000000"+strconv.Itoa(len(openBody)), openBody, 200, ""), framed("chunks in capitals", "TRANSFER-ENCODING: CHUNKED", chunked(openBody), 200, ""),
		framed("an extension of a chunk", chunks, strings.Replace(chunked(openBody), "\r\n", ";a=\"b\"\r\n", 1), 200, ""), framed("a trailer", chunks, strings.Replace(chunked(openBody), "\r\n0\r\n", "\r\n0\r\nx-checksum: 1\r\n", 1), 200, ""),
		kept("no body", "Content-Length: 0", "", 400, "invalid_json"), kept("no length", "A: b", "", 400, "invalid_json"), framed("no chunks", chunks, "0\r\n\r\n", 400, "invalid_json"),
		framed("a trailer that ends in a bare line feed", chunks, strings.Replace(chunked(openBody), "\r\n0\r\n\r\n", "\r\n0\r\n\n", 1)+smuggled, 200, ""),
		framed("a trailer's line that ends in a bare line feed", chunks, strings.Replace(chunked(openBody), "\r\n0\r\n", "\r\n0\r\nfoo: bar\n", 1)+smuggled, 200, ""),
		{name: "a body on a GET", sent: listLine + mine + withLength(openBody), status: 200, keeps: true},
		{name: "a body on a 404", sent: "POST /nowhere HTTP/1.1\r\n" + mine + withLength(openBody), status: 404, code: "not_found", keeps: true},
		{name: "a body without a key", sent: openLine + "Host: x\r\nX-Request-Id: mine\r\n" + withLength(openBody), status: 401, code: "unauthorized", keeps: true},
		{name: "chunks without a key", sent: openLine + "Host: x\r\nX-Request-Id: mine\r\n" + chunks + "\r\n\r\n" + chunked(openBody), status: 401, code: "unauthorized"},
		{name: "a long body without a key", sent: openLine + "Host: x\r\nX-Request-Id: mine\r\n" + withLength(strings.Repeat(" ", 70_000)), status: 401, code: "unauthorized"},
		{name: "long chunks without a key", sent: openLine + "Host: x\r\nX-Request-Id: mine\r\n" + chunks + "\r\n\r\n" + strings.Repeat("fff\r\n"+strings.Repeat(" ", 4095)+"\r\n", 20), status: 401, code: "unauthorized"},
	}
}

// hostileRequests are all of them, by what is hostile about them.
func hostileRequests() map[string][]hostileRequest {
	return map[string][]hostileRequest{
		"lines": hostileRequestLines(), "targets": hostileTargets(), "headers": hostileHeaders(), "bodies": hostileBodies(),
	}
}

// hostileLimits are the limits that hostile requests go beyond.
func hostileLimits() httpapi.Config {
	return httpapi.Config{MaxBodyBytes: 1 << 16, MaxHeaderBytes: 4 << 10}
}

// TestHostileRequestsAreAnsweredOnce: whatever a client sends gets one well-formed answer that bears the client's own
// request id if its headers could be read, the connection lives on just where that is safe, and others are served as before.
// Only what never ends waits for its answer, as long as a request may take.
func TestHostileRequestsAreAnsweredOnce(t *testing.T) {
	t.Parallel()
	for group, requests := range hostileRequests() {
		for _, c := range requests {
			t.Run(group+"/"+c.name, func(t *testing.T) {
				t.Parallel()
				httpapi.InBubble(t, hostileLimits(), nil, func(t *testing.T, b *httpapi.Bubble) {
					t.Helper()
					sendHostile(t, b, c)
				})
			})
		}
	}
}

// nextRequest is an honest request without a key.
const nextRequest = listLine + "Host: x\r\nX-Request-Id: next\r\n\r\n"

func sendHostile(t *testing.T, b *httpapi.Bubble, c hostileRequest) {
	t.Helper()
	conn, began := b.Dial(), time.Now()
	go func() {
		err := <-send(conn, c.sent)
		if half, ok := conn.(interface{ CloseWrite() error }); ok && err == nil && c.ends {
			_ = half.CloseWrite()
		}
	}()
	reader := bufio.NewReader(conn)
	if c.status != 0 {
		expectHostileAnswer(t, c, readResponse(t, reader, http.MethodGet))
		var limit time.Duration
		if c.status == http.StatusRequestTimeout {
			limit = readLimit
		}
		check.Equal(t, time.Since(began), limit, "time until the answer")
	}
	if c.keeps {
		send(conn, nextRequest)
		expectNext(t, "the next request", reader)
	} else if rest, err := io.ReadAll(reader); len(rest) > 0 || err != nil {
		t.Errorf("after the answer come %q, %v", rest, err)
	}
	fresh := b.Dial()
	send(fresh, nextRequest)
	expectNext(t, "another client", bufio.NewReader(fresh))
	if logged := b.Logs.String(); strings.Contains(logged, "panic") || strings.Contains(logged, `"level":"ERROR"`) {
		t.Errorf("something failed on our side: %s", logged)
	}
}

func expectHostileAnswer(t *testing.T, c hostileRequest, got response) {
	t.Helper()
	if got.status != c.status || c.code != "" && got.code(t) != c.code {
		t.Errorf("%d %s, want %d %s", got.status, got.body, c.status, c.code)
	}
	if id := got.header.Get("X-Request-Id"); (id == "mine") == c.nameless || c.nameless && uuid.Validate(id) != nil {
		t.Errorf("the answer bears the id %s", id)
	}
	if got.closes == c.keeps {
		t.Errorf("the connection is announced to close: %v", got.closes)
	}
}

func expectNext(t *testing.T, who string, answers *bufio.Reader) {
	t.Helper()
	if got := readResponse(t, answers, http.MethodGet); got.header.Get("X-Request-Id") != "next" || got.status != http.StatusUnauthorized {
		t.Errorf("%s is answered %d %v", who, got.status, got.header)
	}
}
