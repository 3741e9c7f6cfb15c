package httpapi

import (
	"cmp"
	"net/netip"
	"time"
)

// Config holds the limits of a [Server]. The zero value of each field means its default.
type Config struct {
	// TrustedProxies are networks whose X-Forwarded-For counts. Their connections are not limited by MaxConnectionsPerAddress
	// and RefusalsPerSecond. None by default.
	TrustedProxies []netip.Prefix
	// MaxConnections are served at once (4096). One more replaces one that waits, if there is one: first of those that have not sent a
	// valid key and wait for a request or for the rest of one. Else it is answered with 503.
	MaxConnections int
	// MaxConnectionsPerAddress are served at once for one client address (an IPv4 address, or the /64 of an IPv6 one). One more
	// is answered with 503. No limit by default: behind a load balancer that is not trusted all clients have its address.
	MaxConnectionsPerAddress int
	// RefusalsPerSecond is the number of 401 responses, and of 429 responses without a valid key, that are sent without delay
	// (2000).
	RefusalsPerSecond int
	// MaxHeaderBytes bounds request line and headers together (8 KiB); more is a 431.
	MaxHeaderBytes int
	// MaxBodyBytes bounds a request body (1 MiB); more is a 413. Most operations admit less.
	MaxBodyBytes int
	// MaxBodyMemory bounds the memory of the bodies of all requests, of their reading, and of the responses of more than 4 KiB that
	// are made for one request, in bytes (64 MiB). A body without room is a 503. A client has at most a quarter of it.
	MaxBodyMemory int
	// CompressedBytes bounds the compressed forms that are kept, in bytes (32 MiB).
	CompressedBytes int
	// ReadTimeout is for a request from its first byte to its last (15 s); then 408.
	ReadTimeout time.Duration
	// HandleTimeout is for the work on a request (10 s); then 503.
	HandleTimeout time.Duration
	// WriteTimeout is for sending a response (30 s); then the connection is closed.
	WriteTimeout time.Duration
	// IdleTimeout is how long a connection waits for its next request (75 s). Proxies usually close after 60 s, so they close
	// first.
	IdleTimeout time.Duration
	// TrustTraceparent lets a request's traceparent header continue its trace and decide whether it is recorded: for an ingress
	// that makes or checks these headers. Otherwise the header is a link, so that a client cannot write to foreign traces.
	TrustTraceparent bool
	// DrainDelay is how long connections are accepted after Serve's context ended, while load balancers take note (0).
	DrainDelay time.Duration
	// ShutdownGrace is how long requests may take after that (20 s); then their connections are closed.
	ShutdownGrace time.Duration
}

func (c Config) withDefaults() Config {
	c.MaxConnections = cmp.Or(c.MaxConnections, 4<<10)
	c.RefusalsPerSecond = cmp.Or(c.RefusalsPerSecond, 2000)
	c.MaxHeaderBytes = cmp.Or(c.MaxHeaderBytes, 8<<10)
	c.MaxBodyBytes = cmp.Or(c.MaxBodyBytes, 1<<20)
	c.MaxBodyMemory = cmp.Or(c.MaxBodyMemory, 64<<20)
	c.CompressedBytes = cmp.Or(c.CompressedBytes, 32<<20)
	c.ReadTimeout = cmp.Or(c.ReadTimeout, 15*time.Second)
	c.HandleTimeout = cmp.Or(c.HandleTimeout, 10*time.Second)
	c.WriteTimeout = cmp.Or(c.WriteTimeout, 30*time.Second)
	c.IdleTimeout = cmp.Or(c.IdleTimeout, 75*time.Second)
	c.ShutdownGrace = cmp.Or(c.ShutdownGrace, 20*time.Second)
	return c
}
