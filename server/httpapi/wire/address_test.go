package wire

import (
	"net"
	"net/netip"
	"testing"

	"github.com/valyala/fasthttp"
)

func TestClientAddressBelievesTrustedProxiesOnly(t *testing.T) {
	t.Parallel()
	trusted := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}
	for _, c := range []struct {
		name, peer string
		forwarded  []string
		want       string
	}{
		{"no proxy", "203.0.113.7", nil, "203.0.113.7"},
		{"a header from a stranger", "203.0.113.7", []string{"198.51.100.1"}, "203.0.113.7"},
		{"behind a proxy", "10.1.2.3", []string{"198.51.100.1"}, "198.51.100.1"},
		{"what the client wrote itself", "10.1.2.3", []string{"1.1.1.1, 198.51.100.1"}, "198.51.100.1"},
		{"two proxies", "10.1.2.3", []string{"1.1.1.1, 198.51.100.1,10.9.9.9"}, "198.51.100.1"},
		{"two headers", "10.1.2.3", []string{"198.51.100.1", "10.9.9.9"}, "198.51.100.1"},
		{"all trusted", "10.1.2.3", []string{"10.7.7.7, 10.8.8.8"}, "10.7.7.7"},
		{"no header", "10.1.2.3", nil, "10.1.2.3"},
		{"empty header", "10.1.2.3", []string{""}, "10.1.2.3"},
		{"nonsense", "10.1.2.3", []string{"198.51.100.1, unknown"}, "10.1.2.3"},
		{"nonsense behind a good hop", "10.1.2.3", []string{"unknown, 10.9.9.9"}, "10.9.9.9"},
		{"with a port", "10.1.2.3", []string{"198.51.100.1:4711"}, "198.51.100.1"},
		{"IPv6 in brackets", "10.1.2.3", []string{"[2001:db8::1]"}, "2001:db8::1"},
		{"IPv6 with a port", "fd00::1", []string{"[2001:db8::1]:4711"}, "2001:db8::1"},
		{"IPv4 in IPv6", "::ffff:10.1.2.3", []string{"::ffff:198.51.100.1"}, "198.51.100.1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var req fasthttp.Request
			for _, value := range c.forwarded {
				req.Header.Add("X-Forwarded-For", value)
			}
			var ctx fasthttp.RequestCtx
			ctx.Init(&req, &net.TCPAddr{IP: net.ParseIP(c.peer), Port: 1}, nil)
			if got := ClientAddress(&ctx, trusted); got.String() != c.want {
				t.Errorf("address = %s, want %s", got, c.want)
			}
		})
	}
}
