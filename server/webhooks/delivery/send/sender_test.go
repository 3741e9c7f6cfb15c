package send

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
	"examprep.dev/server/webhooks"
)

var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}

// senderTo returns a sender that trusts a server's certificate and can send to all of IPv4's loopback.
func senderTo(t testing.TB, server *httptest.Server) *Sender {
	t.Helper()
	s, err := New(Ranges{Declared: loopback}, testkit.CAPEM(server), testkit.Patience, time.Now)
	check.NoError(t, err)
	return s
}

// errStaysOpen keeps the connection of a rudeServer open until the sender closes it.
var errStaysOpen = errors.New("the connection stays open")

// A rudeServer answers each connection as a rule says, after it has read the request. Its connections are pipes in memory, so
// that the clock of a synctest bubble moves only when sender and server wait.
type rudeServer struct {
	certificate *tls.Config // nil: the server reads without end and never shakes hands
	answer      func(io.Writer) error
	// written counts the bytes that the sender has taken, without TLS's.
	written atomic.Int64
	serving sync.WaitGroup
}

// dial replaces the dialling of a transport.
func (s *rudeServer) dial(context.Context, string, string) (net.Conn, error) {
	client, server := net.Pipe()
	s.serving.Go(func() { s.serve(server) })
	return client, nil
}

// serve returns when the connection is closed. It reads at all times, as a kernel does.
func (s *rudeServer) serve(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	if s.certificate == nil {
		_, _ = io.Copy(io.Discard, conn)
		return
	}
	conn = tls.Server(conn, s.certificate)
	request, err := http.ReadRequest(bufio.NewReader(conn))
	if err != nil {
		return
	}
	if _, err := io.Copy(io.Discard, request.Body); err != nil {
		return
	}
	var reading sync.WaitGroup
	reading.Go(func() { _, _ = io.Copy(io.Discard, conn) })
	if !errors.Is(s.answer(counted{conn, &s.written}), errStaysOpen) {
		_ = conn.Close()
	}
	reading.Wait()
}

type counted struct {
	io.Writer
	n *atomic.Int64
}

func (c counted) Write(p []byte) (int, error) {
	n, err := c.Writer.Write(p)
	if c.n.Add(int64(n)) > 10*maxResponse && err == nil {
		err = errors.New("the sender has taken too much")
	}
	return n, err
}

// then writes begin once, and more without end.
func then(begin, more string) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.WriteString(w, begin)
		for err == nil {
			_, err = io.WriteString(w, more)
		}
		return err
	}
}

// drip writes begin at once, and of more a byte at a time, without end.
func drip(begin, more string) func(io.Writer) error {
	return func(w io.Writer) error {
		ticker := time.NewTicker(10 * time.Millisecond) // of the bubble's time
		defer ticker.Stop()
		_, err := io.WriteString(w, begin)
		for i := 0; err == nil; i++ {
			<-ticker.C
			_, err = io.WriteString(w, more[i%len(more):i%len(more)+1])
		}
		return err
	}
}

// silent writes begin and nothing more. The connection stays open.
func silent(begin string) func(io.Writer) error {
	return func(w io.Writer) error {
		if _, err := io.WriteString(w, begin); err != nil {
			return err
		}
		return errStaysOpen
	}
}

// once writes text and closes the connection.
func once(text string) func(io.Writer) error {
	return func(w io.Writer) error { _, err := io.WriteString(w, text); return err }
}

func TestRudeReceiverCostsBoundedTimeAndBytes(t *testing.T) {
	t.Parallel()
	lender := httptest.NewTLSServer(http.NotFoundHandler()) // of a certificate
	lender.Close()
	const ok, chunked = "HTTP/1.1 200 OK\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
	block := strings.Repeat("x", 16<<10)
	for name, c := range map[string]struct {
		answer  func(io.Writer) error
		failure string
		status  int
		hangs   bool // the deadline ends it
	}{
		"never answers":                      {silent(""), "timeout", 0, true},
		"stops in the status line":           {silent("HTTP/1.1 2"), "timeout", 0, true},
		"sends headers a byte at a time":     {drip(ok, "X-A: b\r\n"), "timeout", 0, true},
		"sends one header without end":       {then(ok+"X-A: ", block), "connection", 0, false},
		"sends headers without end":          {then(ok, "X-A: "+block[:1000]+"\r\n"), "connection", 0, false},
		"sends 100 Continue without end":     {then("", "HTTP/1.1 100 Continue\r\n\r\n"), "connection", 0, false},
		"sends early hints without end":      {then("", "HTTP/1.1 103 Early Hints\r\nLink: <"+block[:500]+">\r\n\r\n"), "connection", 0, false},
		"sends a body a byte at a time":      {drip(ok+"Content-Length: 1000000\r\n\r\n", "x"), "timeout", 200, true},
		"sends chunks a byte at a time":      {drip(chunked, "1\r\nx\r\n"), "timeout", 200, true},
		"promises a body and is silent":      {silent(ok + "Content-Length: 10\r\n\r\n"), "timeout", 200, true},
		"fails and is silent":                {silent("HTTP/1.1 500 No\r\nContent-Length: 10\r\n\r\n"), "status", 500, true},
		"sends a body of 1 GB":               {then(ok+"Content-Length: 1073741824\r\n\r\n", block), "", 200, false},
		"sends a body without end":           {then(ok+"\r\n", block), "", 200, false},
		"sends chunks without end":           {then(chunked, "4000\r\n"+block+"\r\n"), "", 200, false},
		"sends a chunk's extension for ever": {then(chunked+"1;x=", block), "connection", 200, false},
		"sends trailers without end":         {then(chunked+"1\r\nx\r\n0\r\n", "X-A: "+block+"\r\n"), "connection", 200, false},
		"breaks off in the body":             {once(ok + "Content-Length: 10\r\n\r\nx"), "connection", 200, false},
		"breaks off in the headers":          {once(ok + "X-A"), "connection", 0, false},
		"hangs up":                           {once(""), "connection", 0, false},
		"does not speak HTTP":                {once("220 mail.example.com ESMTP\r\n"), "connection", 0, false},
		"speaks HTTP/2 unasked":              {once("\x00\x00\x12\x04\x00\x00\x00\x00\x00"), "connection", 0, false},
		"sends two lengths":                  {once(ok + "Content-Length: 1\r\nContent-Length: 2\r\n\r\nxx"), "connection", 0, false},
		"changes protocols":                  {silent("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"), "status", 101, false},
		"answers twice":                      {once(ok + "Content-Length: 0\r\n\r\n" + "HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n"), "", 200, false},
		"never shakes hands":                 {nil, "timeout", 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := &rudeServer{answer: c.answer}
			if c.answer != nil {
				server.certificate = &tls.Config{Certificates: lender.TLS.Certificates, MinVersion: tls.VersionTLS12}
			}
			synctest.Test(t, func(t *testing.T) {
				got, took := postToRude(t, server, testkit.CAPEM(lender))
				if got.Failure != c.failure || got.Status != c.status {
					t.Errorf("result %+v, want %q and %d", got, c.failure, c.status)
				}
				if want := map[bool]time.Duration{true: Timeout}[c.hangs]; took != want {
					t.Errorf("it took %s, want %s", took, want)
				}
			})
			if n := server.written.Load(); n > 2*maxResponse {
				t.Errorf("%d bytes were taken", n)
			}
		})
	}
}

// postToRude makes one attempt in a bubble, and returns when the server's connections are closed.
func postToRude(t *testing.T, server *rudeServer, authority []byte) (got Result, took time.Duration) {
	t.Helper()
	s, err := New(Ranges{}, authority, Timeout, time.Now)
	check.NoError(t, err)
	transport, _ := s.declared.transport.(*http.Transport)
	transport.DialContext = server.dial
	began := time.Now()
	got = s.Post(t.Context(), Request{Managed: true, URL: "https://example.com/", EventID: uuid.New(), Body: []byte("{}")})
	took = time.Since(began)
	transport.CloseIdleConnections()
	server.serving.Wait()
	return got, took
}

// A lateTransport returns 200 when the attempt's time is over. net/http does so if a receiver answers because the connection was
// closed, and the answer arrives before the close is noticed.
type lateTransport struct{}

func (lateTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: http.NoBody, Request: r}, nil
}

func TestAnswerAfterTheDeadlineIsNoAcknowledgement(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, err := New(Ranges{}, nil, Timeout, time.Now)
		check.NoError(t, err)
		s.declared.transport = lateTransport{}
		got := s.Post(t.Context(), Request{Managed: true, URL: "https://receiver.example/", EventID: uuid.New(), Body: []byte("{}")})
		if got.Delivered() || got.Failure != "timeout" {
			t.Errorf("result %+v, want a time-out", got)
		}
	})
}

func TestReceiverNeedsATrustedCertificateForItsName(t *testing.T) {
	t.Parallel()
	same := func(*x509.Certificate) {}
	for name, c := range map[string]struct {
		change  func(*x509.Certificate)
		oldest  uint16 // version of TLS; 0: Go's choice
		newest  uint16
		unknown bool
		want    string
	}{
		"as it should be":   {change: same},
		"of nobody known":   {change: same, unknown: true, want: "tls"},
		"for another name":  {change: func(c *x509.Certificate) { c.IPAddresses, c.DNSNames = nil, []string{"example.com"} }, want: "tls"},
		"over":              {change: func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }, want: "tls"},
		"not yet valid":     {change: func(c *x509.Certificate) { c.NotBefore = time.Now().Add(30 * time.Minute) }, want: "tls"},
		"of a client":       {change: func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth} }, want: "tls"},
		"named by CN alone": {change: func(c *x509.Certificate) { c.IPAddresses, c.Subject.CommonName = nil, "127.0.0.1" }, want: "tls"},
		"over TLS 1.1":      {change: same, oldest: tls.VersionTLS10, newest: tls.VersionTLS11, want: "tls"},
		"over TLS 1.2":      {change: same, newest: tls.VersionTLS12},
	} {
		t.Run(name, func(t *testing.T) {
			var asked atomic.Int64
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
			certificate := testkit.Certificate(t, c.change)
			authority := testkit.PEM(certificate.Certificate[0])
			server.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: c.oldest, MaxVersion: c.newest}
			server.StartTLS()
			defer server.Close()
			if c.unknown {
				authority = nil
			}
			s, err := New(Ranges{Declared: loopback}, authority, testkit.Patience, time.Now)
			check.NoError(t, err)
			came := s.Post(t.Context(), Request{Managed: true, URL: server.URL, EventID: uuid.New(), Body: []byte("{}")})
			if came.Failure != c.want || (asked.Load() > 0) != (c.want == "") {
				t.Errorf("came to %+v, want %q; the receiver was asked %d times", came, c.want, asked.Load())
			}
		})
	}
	t.Run("none: plain HTTP", func(t *testing.T) {
		server := httptest.NewServer(http.NotFoundHandler())
		defer server.Close()
		s, err := New(Ranges{Declared: loopback}, nil, testkit.Patience, time.Now)
		check.NoError(t, err)
		if came := s.Post(t.Context(), Request{Managed: true, URL: strings.Replace(server.URL, "http:", "https:", 1), EventID: uuid.New()}); came.Failure != "tls" {
			t.Errorf("came to %+v", came)
		}
	})
}

// TestAllowedRangesAreForDeclaredEndpointsOnly delivers to a loopback address for a declared endpoint first: its connection must not
// be used for the developer's.
func TestAllowedRangesAreForDeclaredEndpointsOnly(t *testing.T) {
	t.Parallel()
	r := testkit.StartReceiver(t, nil)
	s := senderTo(t, r.Server)
	for range 2 {
		for managed, want := range map[bool]string{true: "", false: "refused_address"} {
			got := s.Post(t.Context(), Request{URL: r.URL, Managed: managed, EventID: uuid.New(), Body: []byte("{}"), Secrets: []string{webhooks.NewSecret()}})
			if got.Failure != want {
				t.Errorf("managed %v: %+v, want failure %q", managed, got, want)
			}
		}
	}
}
