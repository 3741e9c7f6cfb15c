package wire

import (
	"net"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// at is a connection from an address.
type at struct {
	client

	address string
}

func (a *at) RemoteAddr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(a.address))
}

// TestTheAddressWithTheMostConnectionsLosesOne: of those that wait for a request or for the rest of one and have not sent a valid
// key, the one that waits longest.
func TestTheAddressWithTheMostConnectionsLosesOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := NewListener(t.Context(), nil, Config{MaxConnections: 8, ReadTimeout: time.Hour})
		named := map[string]*conn{}
		admit := func(name, address string) *conn {
			<-time.After(time.Second)
			c := l.admit(&at{address: address})
			if c == nil {
				t.Fatalf("%s is refused", name)
			}
			named[name] = c
			return c
		}
		admit("lonely", "192.0.2.1:1")
		admit("known", "[2001:db8::1]:1").proven.Store(true)
		admit("busy", "[2001:db8::1]:2").waits.Store(busy)
		begun := admit("first", "[2001:db8::1]:3") // it has begun a request
		begun.waits.Store(-begun.waits.Load())
		admit("pair", "192.0.2.2:1")
		admit("second", "[2001:db8::2]:4") // of the same network
		admit("pair 2", "192.0.2.2:2")
		admit("third", "[2001:db8::3]:5")
		var order []string
		for range 8 {
			l.cfg.MaxConnections = len(l.conns)
			if !l.replaceOne() {
				break
			}
			for name, c := range named {
				if c.waits.Load() == replaced {
					order = append(order, name)
					delete(named, name)
					l.remove(c)
				}
			}
		}
		want := []string{"first", "pair", "second", "lonely", "pair 2", "third", "known"}
		if !slices.Equal(order, want) {
			t.Errorf("replaced in the order %q, want %q", order, want)
		}
	})
}
