package script

import (
	"fmt"
	"strings"
)

const (
	chunksLine = pageLine + mine + "Transfer-Encoding: chunked\r\n\r\n"
	// smuggled is a request to this server, and may be the rest of a body to a server in front.
	smuggled = listLine + "Host: record\r\nX-Request-Id: smuggled\r\n\r\n"
)

// chunked is a body of one chunk.
func chunked(body string) string { return fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(body), body) }

// hostileChunks breaks the framing of chunks.
func hostileChunks() Group {
	good := chunked(pageBody)
	whole := func(name, body string) Exchange { return one(name, chunksLine+body) }
	cut := func(name, body string) Exchange {
		return Exchange{Name: name, Send: []string{chunksLine + body}, HalfClose: true}
	}
	return group("hostile-chunks",
		whole("one", good), whole("byte-by-byte", byteChunks(pageBody)), whole("size-in-capitals", strings.Replace(chunked(pageBody+strings.Repeat(" ", 26)), "4b", "4B", 1)), whole("size-with-zeros", "0000000000000000000"+good), whole("extension", strings.Replace(good, "\r\n", ";a=\"b\"\r\n", 1)), whole("extension-without-value", strings.Replace(good, "\r\n", ";a\r\n", 1)),
		whole("extension-long", strings.Replace(good, "\r\n", ";a="+strings.Repeat("b", 5000)+"\r\n", 1)), whole("size-with-space", strings.Replace(good, "\r\n", " \r\n", 1)), whole("size-with-space-first", " "+good), whole("none", "0\r\n\r\n"), whole("zeros", "000\r\n\r\n"),
		whole("no-size", "\r\n\r\n"), whole("letters", "xyz\r\n{}\r\n0\r\n\r\n"), whole("negative", "-2\r\n{}\r\n0\r\n\r\n"), whole("plus", "+2\r\n{}\r\n0\r\n\r\n"), whole("wraps", "ffffffffffffffff1\r\n{}\r\n"), whole("wraps-to-two", "10000000000000002\r\n{}\r\n0\r\n\r\n"), whole("sign-bit", "8000000000000000\r\n{}\r\n"), whole("largest", "7fffffffffffffff\r\n{}\r\n"),
		whole("prefix", "0x2\r\n{}\r\n0\r\n\r\n"), whole("longer-than-said", "2\r\n{}}\r\n0\r\n\r\n"), cut("shorter-than-said", "5\r\n{}\r\n0\r\n\r\n"), whole("bare-line-feeds", "2\n{}\n0\n\n"), whole("bare-line-feed-in-extension", "2;a\n{}\r\n0\r\n\r\n"), whole("bare-cr", "2\r{}\r0\r\r"), whole("comma", "2,2\r\n{}\r\n0\r\n\r\n"),
		whole("trailer", strings.Replace(good, "\r\n0\r\n", "\r\n0\r\nx-checksum: 1\r\n", 1)), whole("trailer-length", "0\r\nContent-Length: 3\r\n\r\n"), whole("trailer-coding", "0\r\nTransfer-Encoding: chunked\r\n\r\n"), whole("trailer-authorization", strings.Replace(good, "\r\n0\r\n", "\r\n0\r\nAuthorization: Bearer x\r\n", 1)), whole("trailer-host", strings.Replace(good, "\r\n0\r\n", "\r\n0\r\nHost: elsewhere\r\n", 1)),
		whole("trailer-noise", "0\r\na\x00: b\r\n\r\n"), whole("trailer-no-colon", "0\r\nabc\r\n\r\n"), whole("trailer-long", "0\r\na: "+strings.Repeat("a", 9000)+"\r\n\r\n"), whole("trailers-many", "0\r\n"+strings.Repeat("a: b\r\n", 3000)+"\r\n"), whole("trailer-folded", strings.Replace(good, "\r\n0\r\n", "\r\n0\r\na: b\r\n c\r\n", 1)),
		whole("trailer-ends-bare", strings.Replace(good, "\r\n0\r\n\r\n", "\r\n0\r\n\n", 1)+smuggled), whole("trailer-line-ends-bare", strings.Replace(good, "\r\n0\r\n", "\r\n0\r\nfoo: bar\n", 1)+smuggled), whole("request-behind", good+smuggled), whole("request-behind-empty", "0\r\n\r\n"+smuggled), whole("request-in-extension", "0;"+strings.ReplaceAll(smuggled, "\r\n", " ")+"\r\n\r\n"),
		whole("too-long", strings.Repeat("ffff\r\n"+strings.Repeat(" ", 65535)+"\r\n", 20)), whole("many-small", byteChunks(strings.Repeat(" ", 20_000)+pageBody)), whole("longest", "fffff\r\n"+strings.Repeat(" ", 0xfffff-len(pageBody))+pageBody+"\r\n0\r\n\r\n"),
		cut("cut-at-once", ""), cut("cut-in-size", "5"), cut("cut-behind-size", "5\r\n"), cut("cut-in-chunk", "5\r\n{"), cut("cut-behind-chunk", good[:len(good)-7]), cut("cut-between", good[:len(good)-5]), cut("cut-in-last-size", good[:len(good)-4]), cut("cut-in-trailer", "2\r\n{}\r\n0\r\n"), cut("cut-in-trailer-line", "2\r\n{}\r\n0\r\na: b"),
		one("without-key", pageLine+host+json+"Transfer-Encoding: chunked\r\n\r\n"+good), one("long-without-key", pageLine+host+"Transfer-Encoding: chunked\r\n\r\n"+strings.Repeat("ffff\r\n"+strings.Repeat(" ", 65535)+"\r\n", 20)), one("capitals", pageLine+mine+"TRANSFER-ENCODING: CHUNKED\r\n\r\n"+good), one("http-1.0", strings.Replace(pageLine, "1.1", "1.0", 1)+mine+"Transfer-Encoding: chunked\r\n\r\n"+good),
		one("on-get", listLine+mine+"Transfer-Encoding: chunked\r\n\r\n"+good), one("on-not-found", "POST /nowhere HTTP/1.1\r\n"+mine+"Transfer-Encoding: chunked\r\n\r\n"+good), one("broken-on-get", listLine+mine+"Transfer-Encoding: chunked\r\n\r\nxyz\r\n"), headOf(one("on-head", "HEAD /v1/exam-prep/list HTTP/1.1\r\n"+mine+"Transfer-Encoding: chunked\r\n\r\n"+good)),
		one("on-developer-route", "POST "+developer+"/keys HTTP/1.1\r\n"+host+cookie("ada")+json+"Transfer-Encoding: chunked\r\n\r\n"+chunked(`{"name":1}`)),
	)
}

// byteChunks has each byte in a chunk of its own.
func byteChunks(body string) string {
	var chunks strings.Builder
	for i := range len(body) {
		chunks.WriteString("1\r\n" + body[i:i+1] + "\r\n")
	}
	return chunks.String() + "0\r\n\r\n"
}
