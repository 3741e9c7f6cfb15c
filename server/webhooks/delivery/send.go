package delivery

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
	"strings"
	"time"

	"github.com/google/uuid"

	"examprep.dev/server/webhooks"
)

const (
	// acknowledgeTimeout covers connecting, headers and body (docs/spec.md, part 6).
	acknowledgeTimeout = 10 * time.Second
	// maxResponseHeader limits the headers of a response.
	maxResponseHeader = 32 << 10
	userAgent         = "examprep-webhooks/1"
)

// A post is one attempt: the exact body, to one address.
type post struct {
	url string
	// managed: the endpoint is declared in the cluster, so the allowed ranges hold for it.
	managed bool
	eventID uuid.UUID
	body    []byte
	secrets []string
}

// A result of an attempt.
type result struct {
	// status is the HTTP status; 0 without a response.
	status int
	// failure is a short class, without anything that the receiver sent; empty for a delivery.
	failure    string
	retryAfter time.Duration
	// response is how the body begins, bounded and redacted.
	response string
}

func (r result) delivered() bool { return r.failure == "" }

// sender posts over HTTPS. It follows no redirect, uses no proxy, and dials no address that its policies refuse.
type sender struct {
	// strict is for endpoints of developers, allowing for those declared in the cluster. They share no connection.
	strict, allowing route
	timeout          time.Duration
	now              func() time.Time
}

// A route is a transport, not a client, which would parse Location even if it follows no redirect. All its connections are the
// dialer's.
type route struct {
	transport http.RoundTripper
	dialer    *net.Dialer
}

// newSender returns a sender that trusts the system's authorities and those in caPEM, if any.
func newSender(allowed []netip.Prefix, caPEM []byte, timeout time.Duration, now func() time.Time) (*sender, error) {
	roots, err := x509.SystemCertPool()
	if err != nil {
		return nil, fmt.Errorf("read the system's certificate authorities: %w", err)
	}
	if len(caPEM) > 0 && !roots.AppendCertsFromPEM(caPEM) {
		return nil, errors.New("the webhook CA file holds no PEM certificate")
	}
	return &sender{
		strict: newRoute(nil, roots, timeout), allowing: newRoute(allowed, roots, timeout), timeout: timeout, now: now,
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
		MaxIdleConnsPerHost:    2 * maxWindow, // several endpoints may share a host
		MaxIdleConns:           8 * maxWindow,
		IdleConnTimeout:        time.Minute,
		MaxResponseHeaderBytes: maxResponseHeader,
		// A dial outlives the attempt that asked for it, so that attempt's deadline ends no handshake.
		TLSHandshakeTimeout: timeout,
	}}
}

// post makes one attempt. The one deadline covers connecting, headers and body.
func (s *sender) post(ctx context.Context, p post) result {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url, bytes.NewReader(p.body))
	if err != nil || request.URL.Scheme != "https" {
		return result{failure: "url"}
	}
	header := request.Header
	header.Set("Content-Type", "application/json")
	header.Set("User-Agent", userAgent)
	header.Set("Webhook-Id", p.eventID.String())
	signature := webhooks.Sign(p.secrets, s.now(), p.body)
	header[webhooks.SignatureHeader] = []string{signature}
	to := s.strict
	if p.managed {
		to = s.allowing
	}
	response, err := to.transport.RoundTrip(request)
	if err != nil {
		return result{failure: failureClass(err)}
	}
	defer func() { _ = response.Body.Close() }()
	r := result{status: response.StatusCode, retryAfter: parseRetryAfter(response.Header, s.now())}
	start, err := readResponse(response)
	r.response = redact(start, knownSecrets(p.secrets, signature))
	switch {
	case response.StatusCode >= 300 && response.StatusCode < 400:
		r.failure = "redirect"
	case response.StatusCode < 200 || response.StatusCode > 299:
		r.failure = "status"
	case err != nil:
		r.failure = failureClass(err) // a 2xx whose body does not end within the deadline acknowledges nothing
	case ctx.Err() != nil:
		// net/http may return a response that comes just after the deadline. It is late, and some receivers send it because
		// the connection was closed.
		r.failure = failureClass(ctx.Err())
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
