package httpapi

import (
	"bytes"
	"net"
	"net/netip"
	"slices"

	"github.com/google/uuid"
	"github.com/valyala/fasthttp"
)

const maxRequestID = 128

// appendRequestID appends the caller's x-request-id if it is 1 to 128 of [A-Za-z0-9._-], else a new UUIDv7.
func appendRequestID(dst, presented []byte) []byte {
	if validRequestID(presented) {
		return append(dst, presented...)
	}
	return append(dst, uuid.Must(uuid.NewV7()).String()...)
}

func validRequestID(id []byte) bool {
	if len(id) == 0 || len(id) > maxRequestID {
		return false
	}
	for _, c := range id {
		if !isLetter(c) && (c < '0' || c > '9') && c != '.' && c != '_' && c != '-' {
			return false
		}
	}
	return true
}

// clientAddress is whom a request counts against when it carries no valid key: the peer, or, where the peer is a trusted
// proxy, the rightmost address of X-Forwarded-For that is not one. What a client itself wrote stands further left and is
// never believed.
func clientAddress(ctx *fasthttp.RequestCtx, trusted []netip.Prefix) netip.Addr {
	address := peerOf(ctx)
	if !trusts(trusted, address) {
		return address
	}
	forwarded := ctx.Request.Header.PeekAll("X-Forwarded-For")
	for _, rest := range slices.Backward(forwarded) {
		for len(rest) > 0 {
			comma := bytes.LastIndexByte(rest, ',')
			hop, ok := parseHop(bytes.TrimSpace(rest[comma+1:]))
			if !ok {
				return address // an unreadable hop: everything further left is beyond the trusted ones
			}
			address = hop
			if !trusts(trusted, address) {
				return address
			}
			rest = rest[:max(comma, 0)]
		}
	}
	return address
}

// peerOf is the address of the connection that a request came on.
func peerOf(ctx *fasthttp.RequestCtx) netip.Addr {
	if own, ok := ctx.Conn().(*conn); ok {
		return own.peer
	}
	return peerAddress(ctx.RemoteAddr())
}

// peerAddress is the zero Addr for peers without an IP address (a Unix socket).
func peerAddress(addr net.Addr) netip.Addr {
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

func trusts(trusted []netip.Prefix, address netip.Addr) bool {
	for _, prefix := range trusted {
		if prefix.Contains(address) {
			return true
		}
	}
	return false
}
