package send

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"examprep.dev/server/webhooks"
)

const (
	// Timeout is how long a receiver may take to acknowledge: it covers connecting, headers and body (docs/spec.md, part 6).
	Timeout = 10 * time.Second
	// MaxRetryAfter limits what a receiver may ask for.
	MaxRetryAfter = time.Hour
	// maxIdlePerHost and maxIdle are how many idle connections stay open to one host and to all: several endpoints may share a host.
	maxIdlePerHost = 256
	maxIdle        = 1024
	// maxResponseHeader limits the headers of a response.
	maxResponseHeader = 32 << 10
	userAgent         = "examprep-webhooks/1"
)

// A Request is one attempt to deliver an event.
type Request struct {
	// URL is the endpoint's.
	URL string
	// Managed reports whether the endpoint is declared in the cluster, so that it may have an address in the allowed ranges.
	Managed bool
	EventID uuid.UUID
	// Body is sent and signed as it is.
	Body []byte
	// Secrets sign the body, the newest first.
	Secrets []string
}

// A Result is the outcome of an attempt.
type Result struct {
	// Status is the HTTP status; 0 without a response.
	Status int
	// Failure is a short class, without anything that the receiver sent; empty for a delivery.
	Failure string
	// RetryAfter is the wait that the receiver asked for, up to MaxRetryAfter; 0 if it asked for none.
	RetryAfter time.Duration
	// Response is how the body begins, bounded and redacted.
	Response string
}

// Delivered reports whether the receiver acknowledged the event.
func (r Result) Delivered() bool { return r.Failure == "" }

// Sender posts over HTTPS. It follows no redirect, uses no proxy, and dials no address that its policies refuse.
type Sender struct {
	// registered is for endpoints of developers, declared for those declared in the cluster. They share no connection.
	registered, declared route
	timeout              time.Duration
	now                  func() time.Time
}

// A route is a transport, not a client, which would parse Location even if it follows no redirect. All its connections are the
// dialer's.
type route struct {
	transport http.RoundTripper
	dialer    *net.Dialer
}

// Ranges are ranges outside the public internet that webhooks may reach.
type Ranges struct {
	// Declared holds for endpoints that are declared in the cluster.
	Declared []netip.Prefix
	// Registered holds for endpoints that developers register. The product leaves it empty.
	Registered []netip.Prefix
}

// New returns a sender that trusts the system's authorities and those in caPEM, if any. timeout limits each attempt.
func New(allowed Ranges, caPEM []byte, timeout time.Duration, now func() time.Time) (*Sender, error) {
	roots, err := x509.SystemCertPool()
	if err != nil {
		return nil, fmt.Errorf("read the system's certificate authorities: %w", err)
	}
	if len(caPEM) > 0 && !roots.AppendCertsFromPEM(caPEM) {
		return nil, errors.New("the webhook CA file holds no PEM certificate")
	}
	return &Sender{
		registered: newRoute(allowed.Registered, roots, timeout), declared: newRoute(allowed.Declared, roots, timeout),
		timeout: timeout, now: now,
	}, nil
}

func newRoute(allowed []netip.Prefix, roots *x509.CertPool, timeout time.Duration) route {
	dialer := &net.Dialer{Timeout: timeout, Control: webhooks.NewAddressPolicy(allowed).DialControl}
	// HTTP/1.1: a connection for each attempt in flight. Attempts that share an HTTP/2 connection fail together.
	var http1 http.Protocols
	http1.SetHTTP1(true)
	return route{dialer: dialer, transport: &http.Transport{
		DialContext: dialer.DialContext,
		TLSClientConfig: &tls.Config{
			RootCAs: roots, MinVersion: tls.VersionTLS12, ClientSessionCache: tls.NewLRUClientSessionCache(1024),
		},
		Protocols:              &http1,
		DisableCompression:     true,
		MaxIdleConnsPerHost:    maxIdlePerHost,
		MaxIdleConns:           maxIdle,
		IdleConnTimeout:        time.Minute,
		MaxResponseHeaderBytes: maxResponseHeader,
		// A dial outlives the attempt that asked for it, so that attempt's deadline ends no handshake.
		TLSHandshakeTimeout: timeout,
	}}
}

// Post makes one attempt. The one deadline covers connecting, headers and body.
func (s *Sender) Post(ctx context.Context, p Request) Result {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, p.URL, bytes.NewReader(p.Body))
	if err != nil || request.URL.Scheme != "https" {
		return Result{Failure: "url"}
	}
	header := request.Header
	header.Set("Content-Type", "application/json")
	header.Set("User-Agent", userAgent)
	header.Set("Webhook-Id", p.EventID.String())
	signature := webhooks.Sign(p.Secrets, s.now(), p.Body)
	header[webhooks.SignatureHeader] = []string{signature}
	to := s.registered
	if p.Managed {
		to = s.declared
	}
	response, err := to.transport.RoundTrip(request)
	if err != nil {
		return Result{Failure: failureClass(err)}
	}
	defer func() { _ = response.Body.Close() }()
	r := Result{Status: response.StatusCode, RetryAfter: parseRetryAfter(response.Header, s.now())}
	start, err := readResponse(response)
	r.Response = redact(start, knownSecrets(p.Secrets, signature))
	switch {
	case response.StatusCode >= 300 && response.StatusCode < 400:
		r.Failure = "redirect"
	case response.StatusCode < 200 || response.StatusCode > 299:
		r.Failure = "status"
	case err != nil:
		r.Failure = failureClass(err) // a 2xx whose body does not end within the deadline acknowledges nothing
	case ctx.Err() != nil:
		// net/http may return a response that comes just after the deadline. It is late, and some receivers send it because
		// the connection was closed.
		r.Failure = failureClass(ctx.Err())
	}
	return r
}

// failureClass names a transport error for logs, metrics and the delivery log.
func failureClass(err error) string {
	var address *webhooks.AddressError
	var name *net.DNSError
	var certificate *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var network net.Error
	switch {
	case errors.As(err, &address):
		return "refused_address"
	case errors.Is(err, context.Canceled):
		return "cancelled"
	case errors.As(err, &network) && network.Timeout():
		return "timeout"
	case errors.As(err, &name):
		return "dns"
	case errors.As(err, &certificate), errors.As(err, &record), strings.Contains(err.Error(), "tls: "): // alerts have no type
		return "tls"
	default:
		return "connection"
	}
}

// parseRetryAfter reads the header (RFC 9110 §10.2.3): seconds or a date. It returns 0 if there is none or it is invalid.
func parseRetryAfter(header http.Header, now time.Time) time.Duration {
	value := header.Get("Retry-After")
	if seconds, err := strconv.Atoi(value); err == nil || errors.Is(err, strconv.ErrRange) { // then the nearest there is
		return time.Duration(max(0, min(seconds, int(MaxRetryAfter/time.Second)))) * time.Second
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(0, min(at.Sub(now), MaxRetryAfter))
	}
	return 0
}
