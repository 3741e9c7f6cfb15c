package wire

import (
	"bytes"
	"net"
	"net/netip"
	"slices"

	"github.com/valyala/fasthttp"
)

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
func Peer(ctx *fasthttp.RequestCtx) netip.Addr {
	if own, ok := ctx.Conn().(*conn); ok {
		return own.peer
	}
	return addressOf(ctx.RemoteAddr())
}

// addressOf returns the zero Addr for a peer without an IP address (a Unix socket).
func addressOf(addr net.Addr) netip.Addr {
	if tcp, ok := addr.(*net.TCPAddr); ok {
		return tcp.AddrPort().Addr().Unmap().WithZone("")
	}
	return netip.Addr{}
}

// parseHop reads an address as proxies write it: bare, in brackets, or with a port.
func parseHop(text []byte) (netip.Addr, bool) {
	if address, err := netip.ParseAddr(string(text)); err == nil {
		return address.Unmap().WithZone(""), true
	}
	if withPort, err := netip.ParseAddrPort(string(text)); err == nil {
		return withPort.Addr().Unmap().WithZone(""), true
	}
	bare := bytes.TrimSuffix(bytes.TrimPrefix(text, []byte{'['}), []byte{']'})
	address, err := netip.ParseAddr(string(bare))
	return address.Unmap().WithZone(""), err == nil
}

// Trusts reports whether an address is of a trusted proxy.
func Trusts(trusted []netip.Prefix, address netip.Addr) bool {
	for _, prefix := range trusted {
		if prefix.Contains(address) {
			return true
		}
	}
	return false
}
