package gate_test

import (
	"context"
	"net"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"examprep.dev/server/testkit"
)

// route is an address that moves from one server to another, as a Sentinel client's does.
type route struct{ port atomic.Int64 }

func (r *route) to(s *testkit.RedisServer) { r.port.Store(int64(s.Number())) }

// client returns a gate's client along the route.
func (r *route) client(t testing.TB) redis.UniversalClient {
	t.Helper()
	return r.clientWith(t, patientOptions)
}

func (r *route) clientWith(t testing.TB, adjust func(*redis.UniversalOptions)) redis.UniversalClient {
	t.Helper()
	options := &redis.UniversalOptions{Addrs: []string{"redis.test:6379"}}
	adjust(options)
	options.Dialer = func(ctx context.Context, network, _ string) (net.Conn, error) {
		address := net.JoinHostPort("127.0.0.1", strconv.FormatInt(r.port.Load(), 10))
		return (&net.Dialer{Timeout: options.DialTimeout}).DialContext(ctx, network, address)
	}
	rdb := redis.NewUniversalClient(options)
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// clientOf returns a gate's client of one server.
func clientOf(t testing.TB, s *testkit.RedisServer) redis.UniversalClient {
	t.Helper()
	var r route
	r.to(s)
	return r.client(t)
}
