package wire

import (
	"bytes"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/valyala/fasthttp"
	"golang.org/x/net/http/httpguts"
)

// CheckFraming returns what is wrong with a request that a proxy may have read otherwise than fasthttp (RFC 9112 §2.2, §3.2,
// §5, §6). fasthttp itself refuses two lengths, codings other than chunked and identity, and the target * but of OPTIONS. closes
// reports whether the connection must end with the request: if the client asks for it, which fasthttp understands only in small
// letters and alone, and after each chunked body, because fasthttp ends its trailer at a bare line feed too.
func CheckFraming(header *fasthttp.RequestHeader) (problem string, closes bool) {
	lines := header.RawHeaders()
	var length, coding bool
	for line := range bytes.SplitSeq(lines, []byte("\r\n")) {
		name, value, _ := bytes.Cut(line, []byte{':'})
		length = length || bytes.EqualFold(name, []byte(fasthttp.HeaderContentLength))
		coding = coding || bytes.EqualFold(name, []byte(fasthttp.HeaderTransferEncoding))
		closes = closes || bytes.EqualFold(name, []byte(fasthttp.HeaderConnection)) &&
			httpguts.HeaderValuesContainsToken([]string{string(value)}, "close")
	}
	switch {
	case !bytes.HasPrefix(header.Protocol(), []byte("HTTP/1.")):
		problem = "Only HTTP/1.1 and HTTP/1.0 are spoken here."
	case bytes.IndexByte(header.RequestURI(), '#') >= 0:
		problem = "The request target has a fragment."
	case coding && header.ContentLength() != -1:
		problem = "The only Transfer-Encoding that is read is chunked."
	case bytes.Count(lines, []byte("\n")) != bytes.Count(lines, []byte("\r\n")):
		problem = "A header line ends in a bare line feed."
	case bytes.Contains(lines, []byte("\n ")), bytes.Contains(lines, []byte("\n\t")):
		problem = "A header line is folded."
	case coding && length:
		problem = "Content-Length and Transfer-Encoding exclude each other."
	}
	return problem, closes || coding || problem != ""
}

// ReadHeader is fasthttp's HeaderReceived hook. It makes fasthttp follow RFC 9110 §10.1.1: Expect counts in any case, and
// neither from HTTP/1.0 nor without a body.
func ReadHeader(header *fasthttp.RequestHeader) fasthttp.RequestConfig {
	const noBody, expectContinue = -2, "100-continue" // as fasthttp has them
	switch expect := header.Peek(fasthttp.HeaderExpect); {
	case len(expect) == 0:
	case !header.IsHTTP11() || header.ContentLength() == noBody:
		header.Del(fasthttp.HeaderExpect)
	case strings.EqualFold(string(expect), expectContinue):
		header.Set(fasthttp.HeaderExpect, expectContinue)
	}
	return fasthttp.RequestConfig{}
}

// ClientAddress returns the client of a request: the peer, or, if the peer is a trusted proxy, the rightmost address of
// X-Forwarded-For that is not one. A client's own entries are further left and are ignored.
func ClientAddress(ctx *fasthttp.RequestCtx, trusted []netip.Prefix) netip.Addr {
	address := Peer(ctx)
	if !Trusts(trusted, address) {
		return address
	}
	forwarded := ctx.Request.Header.PeekAll("X-Forwarded-For")
	for _, rest := range slices.Backward(forwarded) {
		for len(rest) > 0 {
			comma := bytes.LastIndexByte(rest, ',')
			hop, ok := parseHop(bytes.TrimSpace(rest[comma+1:]))
			if !ok {
				return address // no trusted proxy wrote the entries left of an unreadable one
			}
			address = hop
			if !Trusts(trusted, address) {
				return address
			}
			rest = rest[:max(comma, 0)]
		}
	}
	return address
}

// Peer returns the address at the other end of a request's connection.
func Peer(ctx *fasthttp.RequestCtx) netip.Addr { return addressOf(ctx.RemoteAddr()) }

// addressOf returns the zero Addr for a peer without an IP address (a Unix socket).
func addressOf(addr net.Addr) netip.Addr {
	if tcp, ok := addr.(*net.TCPAddr); ok {
		return tcp.AddrPort().Addr().Unmap().WithZone("")
	}
	return netip.Addr{}
}

// parseHop reads an address as proxies write it: bare, in brackets, or with a port.
func parseHop(text []byte) (netip.Addr, bool) {
	bare := bytes.TrimSuffix(bytes.TrimPrefix(text, []byte{'['}), []byte{']'})
	address, err := netip.ParseAddr(string(bare))
	if err != nil {
		var withPort netip.AddrPort
		withPort, err = netip.ParseAddrPort(string(text))
		address = withPort.Addr()
	}
	return address.Unmap().WithZone(""), err == nil
}

// Trusts reports whether an address is of a trusted proxy.
func Trusts(trusted []netip.Prefix, address netip.Addr) bool {
	return slices.ContainsFunc(trusted, func(prefix netip.Prefix) bool { return prefix.Contains(address) })
}
