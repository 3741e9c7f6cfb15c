package webhooks

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
)

const (
	// acknowledgeTimeout covers connecting, headers and body (docs/spec.md, part 6).
	acknowledgeTimeout = 10 * time.Second
	// maxAnswer is how much of an answer is read; the rest is left on the connection, which is closed.
	maxAnswer = 64 << 10
	// maxAnswerHeader bounds the headers of an answer.
	maxAnswerHeader = 32 << 10
	userAgent       = "examprep-webhooks/1"
)

// A post is one try: the exact body, to one address.
type post struct {
	url     string
	eventID uuid.UUID
	body    []byte
	secrets []string
}

// An outcome is what came of a try.
type outcome struct {
	// status is the HTTP status; 0 when no answer came.
	status int
	// failure is a short class of what went wrong, without anything the receiver sent; "" for a delivery.
	failure    string
	retryAfter time.Duration
	// answer is how the receiver's answer begins, bounded and cleaned (redact).
	answer string
}

func (o outcome) delivered() bool { return o.failure == "" }

// sender posts over HTTPS. It follows no redirect, asks no proxy, and dials no address that its policy refuses.
type sender struct {
	transport http.RoundTripper // not a client, which would read the Location of a redirect, if not follow it
	timeout   time.Duration
	dialer    *net.Dialer // all connections are its
	now       func() time.Time
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
	dialer := &net.Dialer{Timeout: timeout, Control: NewAddressPolicy(allowed).DialControl}
	return &sender{now: now, dialer: dialer, timeout: timeout, transport: &http.Transport{
		DialContext: dialer.DialContext,
		TLSClientConfig: &tls.Config{
			RootCAs: roots, MinVersion: tls.VersionTLS12, ClientSessionCache: tls.NewLRUClientSessionCache(1024),
		},
		// HTTP/1.1: a connection for each try in flight. On one HTTP/2 connection a receiver's tries would share their
		// fate, and a connection that died silently would take the next ones with it.
		Protocols:              onlyHTTP1(),
		DisableCompression:     true,
		MaxIdleConnsPerHost:    2 * maxWindow, // several endpoints may share a host
		MaxIdleConns:           8 * maxWindow,
		IdleConnTimeout:        time.Minute,
		MaxResponseHeaderBytes: maxAnswerHeader,
		// A dial outlives the try that asked for it, whose deadline therefore ends no handshake.
		TLSHandshakeTimeout: timeout,
	}}, nil
}

func onlyHTTP1() *http.Protocols {
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	return &protocols
}

// send makes one try. The one deadline covers connecting, headers and body.
func (s *sender) send(ctx context.Context, p post) outcome {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url, bytes.NewReader(p.body))
	if err != nil || request.URL.Scheme != "https" {
		return outcome{failure: "url"}
	}
	header := request.Header
	header.Set("Content-Type", "application/json")
	header.Set("User-Agent", userAgent)
	header.Set("Webhook-Id", p.eventID.String())
	signature := Sign(p.secrets, s.now(), p.body)
	header[SignatureHeader] = []string{signature}
	answer, err := s.transport.RoundTrip(request)
	if err != nil {
		return outcome{failure: classify(err)}
	}
	defer func() { _ = answer.Body.Close() }()
	result := outcome{status: answer.StatusCode, retryAfter: retryAfter(answer.Header, s.now())}
	start, err := readResponse(answer)
	result.answer = redact(start, knownSecrets(p.secrets, signature))
	switch {
	case answer.StatusCode >= 300 && answer.StatusCode < 400:
		result.failure = "redirect"
	case answer.StatusCode < 200 || answer.StatusCode > 299:
		result.failure = "status"
	case err != nil:
		result.failure = classify(err) // a 2xx whose body never ends within the deadline acknowledges nothing
	case ctx.Err() != nil:
		// Hanging up makes some receivers end their request as if all were well, and net/http hands out an answer that
		// comes before the connection is quite gone. It is late, and may say nothing of whether the event was taken in.
		result.failure = classify(ctx.Err())
	}
	return result
}

// classify names a transport error for logs, metrics and the delivery log.
func classify(err error) string {
	var address *AddressError
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
