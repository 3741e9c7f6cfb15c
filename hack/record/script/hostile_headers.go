package script

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

// hostileHeaders breaks header lines, and sends headers that should change nothing.
func hostileHeaders() Group {
	whole := map[string]string{
		"no-host": listLine + strings.TrimPrefix(mine, "Host: record\r\n") + "\r\n", "empty-host": listLine + strings.Replace(mine, "Host: record", "Host: ", 1) + "\r\n",
		"host-only-bracket": listLine + strings.Replace(mine, "Host: record", "Host: [::", 1) + "\r\n", "host-with-path": listLine + strings.Replace(mine, "Host: record", "Host: record/x", 1) + "\r\n",
		"host-with-user": listLine + strings.Replace(mine, "Host: record", "Host: a@record", 1) + "\r\n", "host-with-space": listLine + strings.Replace(mine, "Host: record", "Host: re cord", 1) + "\r\n",
		"host-port-of-letters": listLine + strings.Replace(mine, "Host: record", "Host: record:http", 1) + "\r\n", "host-beyond-ascii": listLine + strings.Replace(mine, "Host: record", "Host: r\xc3\xa9cord", 1) + "\r\n",
		"host-ipv6": listLine + strings.Replace(mine, "Host: record", "Host: [::1]:80", 1) + "\r\n", "folded-first": listLine + " " + mine + "\r\n", "bare-line-feed": listLine + "A: b\n" + mine + "\r\n",
		"no-headers": listLine + "\r\n", "headers-in-capitals": listLine + strings.ToUpper(strings.ReplaceAll(mine, "Bearer <<fresh>>", "x")) + "\r\n",
		"empty-line-within": listLine + "Host: record\r\n\r\n" + "Authorization: Bearer x\r\n\r\n",
	}
	lines := map[string]string{
		"two-hosts": "Host: record", "two-other-hosts": "Host: elsewhere", "space-before-colon": "a : c", "tab-before-colon": "a\t: c", "empty-name": ": c", "no-colon": "abc", "bare-cr": "a: b\rc", "nul-in-value": "a: \x00", "nul-in-name": "a\x00: b",
		"name-beyond-ascii": "\xe9: c", "name-of-two-words": "a b: c", "name-in-brackets": "(a): b", "name-with-slash": "a/b: c", "name-with-at": "a@b: c", "value-beyond-ascii": "a: \xe9", "value-utf8": "a: é", "value-control": "a: \x01", "value-delete": "a: \x7f", "value-tab": "a: b\tc", "value-empty": "a:",
		"folded": "a: b\r\n c", "folded-tab": "a: b\r\n\tc", "folded-empty": "a: b\r\n ", "folded-length": "Content-Length:\r\n 3\r\n\r\n{}", "bare-line-feed-last": "a: b\nc: d", "two-colons": "a:: b", "only-colon": ":", "spaces-around": "a:    b   ", "long": "a: " + strings.Repeat("a", 9000), "quite-long": "a: " + strings.Repeat("a", 7000),
		"many": strings.Repeat("a: b\r\n", 2000) + "a: b", "quite-many": strings.Repeat("a: b\r\n", 1000) + "a: b", "long-name": strings.Repeat("a", 9000) + ": b", "expect-without-body": "Expect: 100-continue", "expect-other": "Expect: 200-ok", "expect-empty": "Expect: ", "upgrade-h2c": "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA",
		"upgrade-websocket": "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13", "range": "Range: bytes=0-1", "if-range": "If-Range: \"a\"\r\nRange: bytes=0-1", "te": "TE: trailers", "trailer-without-chunks": "Trailer: a", "cookies-of-noise": "Cookie: =;;=a;\"\\", "cookies-long": "Cookie: a=" + strings.Repeat("b", 6000),
		"close": "Connection: close", "close-capitals": "Connection: CLOSE", "close-in-list": "Connection: TE, close", "close-twice": "Connection: close\r\nConnection: keep-alive", "close-spaces": "Connection:   close  ", "close-quoted": "Connection: \"close\"", "close-part-of-word": "Connection: closed", "keep-alive": "Connection: keep-alive", "connection-names-authorization": "Connection: Authorization",
		"proxy-connection": "Proxy-Connection: close", "method-override": "X-HTTP-Method-Override: DELETE", "original-url": "X-Original-URL: /v1/developer/keys", "forwarded": "Forwarded: for=203.0.113.1", "forwarded-host": "X-Forwarded-Host: elsewhere", "forwarded-proto": "X-Forwarded-Proto: https", "traceparent": "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
		"traceparent-broken": "traceparent: 00-0-0-0", "accept-none": "Accept: text/html", "accept-charset": "Accept-Charset: utf-16", "accept-language": "Accept-Language: de", "cache-control": "Cache-Control: only-if-cached", "content-type-on-get": "Content-Type: text/xml", "content-encoding-on-get": "Content-Encoding: gzip", "max-forwards": "Max-Forwards: 0", "origin": "Origin: https://elsewhere",
		"preflight": "Access-Control-Request-Method: POST", "user-agent-long": "User-Agent: " + strings.Repeat("a", 2000), "accept-encoding-long": "Accept-Encoding: " + strings.Repeat("gzip,", 1000), "range-many": "Range: bytes=" + strings.Repeat("0-1,", 500) + "0-1", "date-broken": "Date: never", "via": "Via: 1.1 proxy",
	}
	var list []Exchange
	for _, name := range slices.Sorted(maps.Keys(whole)) {
		list = append(list, one(name, whole[name]))
	}
	for _, name := range slices.Sorted(maps.Keys(lines)) {
		list = append(list, one(name, listLine+mine+lines[name]+"\r\n\r\n"))
	}
	return group("hostile-headers", list...)
}

// hostileLengths announces bodies in odd ways.
func hostileLengths() Group {
	lengths := []string{
		"Content-Length: 2\r\nContent-Length: 2", "Content-Length: 2\r\nContent-Length: 3", "Content-Length: 2, 2", "Content-Length: 2, 3", "Content-Length: 2\r\nTransfer-Encoding: chunked", "Transfer-Encoding: chunked\r\nContent-Length: 2", "Content-Length: -2", "Content-Length: -0", "Content-Length: +2", "Content-Length: 0x2",
		"Content-Length: two", "Content-Length:", "Content-Length: 99999999999999999999", "Content-Length: 9223372036854775808", "Content-Length: 18446744073709551618", "Content-Length: 1 2", "Content-Length : 2", "Content-Length: 2.0", "Content-Length: 2e0", "Content-Length: \"2\"", "Content-Length: 2;a", "Content-Length: \x0b2", "Content-Length: 2\x00", "Content-Length: \xd9\xa2",
		"Content_Length: 2", "Content-Length\x00: 2", "X-Content-Length: 2", "Transfer-Encoding: gzip", "Transfer-Encoding: gzip, chunked", "Transfer-Encoding: chunked, gzip", "Transfer-Encoding: identity", "Transfer-Encoding: chunked, identity", "Transfer-Encoding: chunked, chunked", "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
		"Transfer-Encoding: xchunked", "Transfer-Encoding: chunkedx", "Transfer-Encoding: \"chunked\"", "Transfer-Encoding: \x0bchunked", "Transfer-Encoding:\r\n chunked", "Transfer-Encoding:", "Transfer-Encoding : chunked", "Transfer-Encoding: chunked;a=b", "Transfer-Encoding: ,chunked", "Transfer-Encoding: chunked,", "Transfer_Encoding: chunked", "X-Transfer-Encoding: chunked", "TE: chunked",
	}
	var list []Exchange
	for i, line := range lengths {
		// A server that reads another length finds a broken request after the body.
		e := Exchange{Name: "framing-" + strconv.Itoa(i+1), Send: []string{pageLine + mine + line + "\r\n\r\n{}0\r\n\r\n"}, HalfClose: true}
		list = append(list, e)
	}
	long := strings.Repeat(" ", 1<<20)
	list = append(list,
		one("zeros", pageLine+mine+"Content-Length: 000000<<length>>\r\n\r\n"+pageBody), one("none", pageLine+mine+"\r\n"), one("zero", pageLine+mine+"Content-Length: 0\r\n\r\n"),
		one("announced-too-long", pageLine+mine+"Content-Length: 1000000000\r\n\r\n{"), one("announced-one-too-many", pageLine+mine+"Content-Length: 1048577\r\n\r\n{"), one("sent-too-long", pageLine+mine+"Content-Length: <<length>>\r\n\r\n"+long+pageBody),
		one("sent-longest", pageLine+mine+"Content-Length: <<length>>\r\n\r\n"+long[len(pageBody):]+pageBody), one("sent-far-too-long", pageLine+mine+"Content-Length: <<length>>\r\n\r\n"+long+long+long), one("too-long-without-key", pageLine+host+"Content-Length: <<length>>\r\n\r\n"+long+long),
		one("body-without-key", pageLine+host+json+"Content-Length: <<length>>\r\n\r\n"+pageBody), one("body-on-get", listLine+mine+"Content-Length: <<length>>\r\n\r\n"+pageBody), one("long-body-on-get", listLine+mine+"Content-Length: <<length>>\r\n\r\n"+long[:100_000]), one("too-long-body-on-get", listLine+mine+"Content-Length: 1048577\r\n\r\n{"),
		one("body-on-not-found", "POST /nowhere HTTP/1.1\r\n"+mine+"Content-Length: <<length>>\r\n\r\n"+pageBody), one("body-on-options", "OPTIONS "+open+" HTTP/1.1\r\n"+mine+"Content-Length: <<length>>\r\n\r\n"+pageBody), headOf(one("body-on-head", "HEAD /v1/exam-prep/list HTTP/1.1\r\n"+mine+"Content-Length: <<length>>\r\n\r\n"+pageBody)),
		one("body-on-method-not-allowed", "PUT "+open+" HTTP/1.1\r\n"+mine+"Content-Length: <<length>>\r\n\r\n"+pageBody), one("long-body-on-developer-route", "POST "+developer+"/keys HTTP/1.1\r\n"+host+json+"Content-Length: 1048577\r\n\r\n{"), one("body-in-http-1.0", strings.Replace(pageLine, "1.1", "1.0", 1)+mine+"Content-Length: <<length>>\r\n\r\n"+pageBody),
	)
	return group("hostile-lengths", list...)
}
