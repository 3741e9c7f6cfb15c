package script

import (
	"strconv"
	"strings"
)

const (
	listLine = "GET /v1/exam-prep/list HTTP/1.1\r\n"
	pageLine = "POST " + questions + " HTTP/1.1\r\n"
	pageBody = `{"paper_id":"record-geo-2024","question_limit":1}`
	// mine are the headers of an honest client.
	mine = "Host: record\r\nX-Request-Id: mine\r\nAuthorization: Bearer <<fresh>>\r\nContent-Type: application/json\r\n"
)

// hostileLines breaks the request line, or never ends it.
func hostileLines() Group {
	line := func(name, line string) Exchange { return one(name, line+"\r\n"+mine+"\r\n") }
	ended := func(name, sent string) Exchange {
		return Exchange{Name: name, Send: []string{sent}, HalfClose: true}
	}
	silent := func(name, sent string) Exchange {
		e := ended(name, sent)
		e.Responses = None
		return e
	}
	var list []Exchange
	for _, version := range []string{
		"HTTP/0.9", "HTTP/1", "HTTP/1.", "HTTP/1.2", "HTTP/1.9", "HTTP/1.10", "HTTP/01.1", "HTTP/2", "HTTP/2.0", "HTTP/3", "HTTP/9.9", "HTTP/1.1x", "HTTP/ 1.1", "HTTP 1.1", "HTTP1.1",
		"http/1.1", "Http/1.1", "SPDY/3.1", "HTTPS/1.1", "ICY", "HTTP/-1.1", "HTTP/1.1 ", "HTTP/1.1\t", "HTTP/1.1 HTTP/1.0", "\x00HTTP/1.1", "HTTP/1,1", "HTTP/x.y",
	} {
		list = append(list, line("version-"+strconv.Itoa(len(list)+1), "GET /v1/exam-prep/list "+version))
	}
	list = append(list,
		silent("nothing", ""), silent("one-empty-line", "\r\n"), silent("two-empty-lines", "\r\n\r\n"), silent("bare-line-feeds", "\n\n\n"), ended("many-empty-lines", strings.Repeat("\r\n", 500)),
		one("empty-lines-first", "\r\n\r\n"+listLine+mine+"\r\n"), one("bare-line-feeds-first", "\n\n"+listLine+mine+"\r\n"), one("spaces-first", "  "+listLine+mine+"\r\n"),
		one("tls-hello", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n"), one("noise", "\x00\xff\x00\xff\r\n\r\n"), one("http-0.9", "GET /v1/exam-prep/list\r\n"), one("http-2-preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
		one("ssh", "SSH-2.0-OpenSSH_9.6\r\n\r\n"), one("redis", "*1\r\n$4\r\nPING\r\n\r\n"), one("proxy-protocol", "PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\n"+listLine+mine+"\r\n"), one("a-response", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
		ended("half-a-line", "GET /v1/exam-pr"), ended("half-a-method", "G"), ended("half-a-header", listLine+"Host: record\r\nX-Request-Id: mi"), ended("no-end-of-headers", listLine+mine),
		line("no-version", "GET /v1/exam-prep/list"), line("no-target", "GET  HTTP/1.1"), line("only-a-method", "GET"), line("only-a-method-and-space", "GET "), line("no-method", " /v1/exam-prep/list HTTP/1.1"), line("empty", ""),
		line("two-targets", "GET /v1/exam-prep/list x HTTP/1.1"), line("two-spaces", "GET  /v1/exam-prep/list HTTP/1.1"), line("two-spaces-behind", "GET /v1/exam-prep/list  HTTP/1.1"), line("tabs", "GET\t/v1/exam-prep/list\tHTTP/1.1"),
		line("vertical-tab", "GET\v/v1/exam-prep/list HTTP/1.1"), line("method-of-noise", "G\x01T /v1/exam-prep/list HTTP/1.1"), line("method-in-brackets", "(GET) /v1/exam-prep/list HTTP/1.1"), line("method-with-colon", "GET: /v1/exam-prep/list HTTP/1.1"),
		line("method-small", "get /v1/exam-prep/list HTTP/1.1"), line("method-mixed", "Get /v1/exam-prep/list HTTP/1.1"), line("method-unknown", "FROB /v1/exam-prep/list HTTP/1.1"), line("method-trace", "TRACE /v1/exam-prep/list HTTP/1.1"),
		line("method-connect", "CONNECT record:443 HTTP/1.1"), line("method-long", strings.Repeat("A", 300)+" /v1/exam-prep/list HTTP/1.1"), line("method-beyond-ascii", "G\xc3\x89T /v1/exam-prep/list HTTP/1.1"), line("method-propfind", "PROPFIND /v1/exam-prep/list HTTP/1.1"),
		line("method-unknown-path", "FROB /nowhere HTTP/1.1"), line("nul-in-target", "GET /v1/exam-prep/\x00 HTTP/1.1"), line("bare-cr-in-target", "GET /v1/exam-prep/li\rst HTTP/1.1"), line("control-in-target", "GET /v1/exam-prep/li\x01st HTTP/1.1"), line("delete-in-target", "GET /v1/exam-prep/li\x7fst HTTP/1.1"),
		one("line-ends-bare", strings.Replace(listLine, "\r\n", "\n", 1)+mine+"\r\n"), one("line-ends-cr", "GET /v1/exam-prep/list HTTP/1.1\r"+mine+"\r\n"), one("line-ends-cr-cr-lf", "GET /v1/exam-prep/list HTTP/1.1\r\r\n"+mine+"\r\n"),
		line("long-target", "GET /"+strings.Repeat("a", 9000)+" HTTP/1.1"), line("long-query", "GET /v1/exam-prep/list?"+strings.Repeat("a", 9000)+" HTTP/1.1"), line("quite-long-query", "GET /v1/exam-prep/list?"+strings.Repeat("a", 7000)+" HTTP/1.1"),
		one("http-1.0", "GET /v1/exam-prep/list HTTP/1.0\r\n"+mine+"\r\n"), one("http-1.0-keep-alive", "GET /v1/exam-prep/list HTTP/1.0\r\n"+mine+"Connection: keep-alive\r\n\r\n"), one("http-1.0-without-host", "GET /v1/exam-prep/list HTTP/1.0\r\nAuthorization: Bearer <<fresh>>\r\n\r\n"),
	)
	return group("hostile-lines", list...)
}

// hostileTargets asks for odd targets.
func hostileTargets() Group {
	at := func(name, target string) Exchange { return one(name, "GET "+target+" HTTP/1.1\r\n"+mine+"\r\n") }
	method := func(name, line string) Exchange { return one(name, line+" HTTP/1.1\r\n"+mine+"\r\n") }
	return group("hostile-targets",
		at("absolute", "http://elsewhere/v1/exam-prep/list"), at("absolute-https", "https://record/v1/exam-prep/list"), at("absolute-other-scheme", "gopher://x/v1/exam-prep/list"), at("absolute-no-path", "http://record"), at("absolute-root", "http://record/"),
		at("absolute-query", "http://record/v1/exam-prep/list?country=Japan"), at("absolute-query-no-path", "http://record?a=b"), at("absolute-user", "http://a:b@record/v1/exam-prep/list"), at("absolute-port", "http://record:99999/v1/exam-prep/list"), at("absolute-no-host", "http:///v1/exam-prep/list"),
		at("absolute-bad-scheme", "ht!tp://x/v1/exam-prep/list"), at("absolute-bad-host", "http://[::/v1/exam-prep/list"), at("absolute-capitals", "HTTP://RECORD/v1/exam-prep/list"), at("no-slash", "v1/exam-prep/list"), at("fragment", "/v1/exam-prep/list#x"), at("fragment-in-query", "/v1/exam-prep/list?a#b"),
		at("asterisk", "*"), at("slash-asterisk", "/*"), at("question-mark-only", "?"), at("authority", "record:443"), at("two-slashes-first", "//v1/exam-prep/list"), at("two-slashes", "/v1//exam-prep/list"), at("trailing-slash", "/v1/exam-prep/list/"), at("trailing-dot", "/v1/exam-prep/list."),
		at("dots", "/v1/exam-prep/../../etc/passwd"), at("dots-back", "/v1/exam-prep/x/../list"), at("one-dot", "/v1/exam-prep/./list"), at("encoded-dots", "/v1/exam-prep/%2e%2e/list"), at("encoded-dots-back", "/v1/exam-prep/x/%2e%2e/list"), at("double-encoded-dots", "/v1/exam-prep/%252e%252e/list"), at("dots-with-semicolon", "/v1/exam-prep/..;/list"),
		at("encoded-slash", "/v1/exam-prep/a%2f..%2flist"), at("encoded-slash-in-key", "/v1/exam-prep/record%2fgeo/overview"), at("encoded-list", "/v1/exam-prep/lis%74"), at("encoded-prefix", "/%761/exam-prep/list"), at("backslashes", "/v1\\exam-prep\\list"), at("encoded-backslash", "/v1/exam-prep/..%5c..%5clist"),
		at("percent-nothing", "/v1/exam-prep/%/overview"), at("percent-one-digit", "/v1/exam-prep/%4/overview"), at("percent-no-digits", "/v1/exam-prep/%zz/overview"), at("encoded-nul", "/v1/exam-prep/%00/overview"), at("encoded-nul-in-key", "/v1/exam-prep/record-geo%00/overview"), at("half-a-character", "/v1/exam-prep/%c3/overview"),
		at("overlong", "/v1/exam-prep/%c0%ae%c0%ae/overview"), at("surrogate", "/v1/exam-prep/%ed%a0%80/overview"), at("beyond-ascii", "/v1/exam-prep/\xc3\xa9/overview"), at("bytes-of-no-character", "/v1/exam-prep/\xff\xfe/overview"), at("no-exam-key", "/v1/exam-prep//overview"), at("space-as-plus", "/v1/exam-prep/record+geo/overview"), at("semicolon", "/v1/exam-prep/record-geo;a=b/overview"),
		at("long-key", "/v1/exam-prep/"+strings.Repeat("a", 3000)+"/overview"), at("key-list", "/v1/exam-prep/list/overview"), at("deep", "/v1/exam-prep/"+strings.Repeat("a/", 500)), at("quotes", `/v1/exam-prep/"><script>/overview`), at("braces", "/v1/exam-prep/{exam_key}/overview"), at("capitals", "/V1/EXAM-PREP/LIST"), at("only-prefix", "/v1/exam-prep/"), at("only-prefix-no-slash", "/v1/exam-prep"),
		at("version-2", "/v2/exam-prep/list"), at("metrics", "/metrics"), at("health", "/healthz"), at("pprof", "/debug/pprof/"), at("well-known", "/.well-known/security.txt"), at("favicon", "/favicon.ico"), at("developer-root", "/v1/developer"), at("developer-unknown", "/v1/developer/nothing"), at("console-path", "/console"),
		at("encoded-question-mark", "/v1/exam-prep/list%3Fcountry=Japan"), at("encoded-space", "/v1/exam-prep/%20/overview"), at("encoded-newline", "/v1/exam-prep/%0d%0aX:%20y/overview"), at("parameters-of-file", "/v1/exam-prep/list.json"),
		method("options-asterisk", "OPTIONS *"), method("options-slash-asterisk", "OPTIONS /*"), method("options-unknown", "OPTIONS /nowhere"), method("options-absolute", "OPTIONS http://record/v1/exam-prep/list"), headOf(method("head-asterisk", "HEAD *")), method("post-asterisk", "POST *"), method("post-slash-asterisk", "POST /*"), method("connect-path", "CONNECT /v1/exam-prep/list"), method("connect-host", "CONNECT x:443"),
	)
}

// hostileQueries sends odd queries to the list and the history.
func hostileQueries() Group {
	queries := []string{
		"country=%zz", "country=%ff", "country=\xff", "country=%00", "country=%", "country=%4", "country=a&country=b", "country=&country=", "country_code=es;x", "country_code=E", "country_code=ESP", "country_code=", "country_code=%C3%A9s", "country_code=e1", "country_code=CH&country_code=CH",
		"country", "country&country_code", "=", "&&&&", "?country=Japan", "country[]=Japan", "COUNTRY=Japan", "%63ountry=Japan", "%6", "%zz=1", "%zz=1&country=Japan", "country=" + strings.Repeat("a", 200), "country=" + strings.Repeat("a", 201), "country=" + strings.Repeat("%C3%A9", 200), "country=%F0%9F%87%A8%F0%9F%87%AD",
		"country=%ED%A0%80", "country=%C0%80", "country=http://x/", "country=a=b", "country=Japan;country_code=JP", "country=%E2%80%AE", "country=\"", "country=<script>", "country=%0D%0A", strings.Repeat("a=b&", 1000) + "country=Japan", "country=x%zz&country_code=%zz",
	}
	var list []Exchange
	for i, query := range queries {
		list = append(list, one("list-"+strconv.Itoa(i+1), "GET /v1/exam-prep/list?"+query+" HTTP/1.1\r\n"+mine+"\r\n"))
	}
	return group("hostile-queries", list...)
}
