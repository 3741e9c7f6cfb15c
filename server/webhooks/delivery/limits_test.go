package delivery

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

// rudeServer answers each connection by hand, after the request was read, and counts what it could write.
type rudeServer struct {
	url       string
	authority []byte
	written   atomic.Int64
	// left counts the connections without a handshake that the other side closed.
	left atomic.Int64
}

func newRudeServer(t *testing.T, silentTLS bool, answer func(w *counted) error) *rudeServer {
	t.Helper()
	lender := httptest.NewTLSServer(http.NotFoundHandler()) // of a certificate
	defer lender.Close()
	s := &rudeServer{authority: testkit.CAPEM(lender)}
	listener := testkit.Listen(t)
	s.url = "https://" + listener.Addr().String()
	if !silentTLS {
		listener = tls.NewListener(listener, lender.TLS)
	}
	var work sync.WaitGroup
	stop := t.Context().Done() // before cleanups
	work.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			work.Go(func() {
				defer func() { _ = conn.Close() }()
				if silentTLS {
					defer context.AfterFunc(t.Context(), func() { _ = conn.Close() })()
					_, _ = io.Copy(io.Discard, conn)
					s.left.Add(1)
					return
				}
				request, err := http.ReadRequest(bufio.NewReader(conn))
				if err != nil {
					return
				}
				_, _ = io.Copy(io.Discard, request.Body)
				_ = answer(&counted{conn, &s.written, stop})
			})
		}
	})
	t.Cleanup(func() { _ = listener.Close(); work.Wait() })
	return s
}

type counted struct {
	net.Conn
	n    *atomic.Int64
	stop <-chan struct{}
}

func (c *counted) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.n.Add(int64(n))
	return n, err
}

// then writes begin once, and more without end.
func then(begin, more string) func(*counted) error {
	return func(w *counted) error {
		_, err := io.WriteString(w, begin)
		for err == nil {
			_, err = io.WriteString(w, more)
		}
		return err
	}
}

// drip writes begin at once, and of more a byte at a time, without end.
func drip(begin, more string) func(*counted) error {
	return func(w *counted) error {
		ticker := time.NewTicker(10 * time.Millisecond)
		defer ticker.Stop()
		_, err := io.WriteString(w, begin)
		for i := 0; err == nil; i++ {
			select {
			case <-ticker.C:
			case <-w.stop:
				return nil
			}
			_, err = io.WriteString(w, more[i%len(more):i%len(more)+1])
		}
		return err
	}
}

// silent writes begin and nothing more.
func silent(begin string) func(*counted) error {
	return func(w *counted) error {
		_, err := io.WriteString(w, begin)
		<-w.stop
		return err
	}
}

func once(text string) func(*counted) error {
	return func(w *counted) error { _, err := io.WriteString(w, text); return err }
}

func TestARudeReceiverCostsBoundedTimeAndBytes(t *testing.T) {
	t.Parallel()
	const ok, chunked = "HTTP/1.1 200 OK\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
	block := strings.Repeat("x", 16<<10)
	for name, c := range map[string]struct {
		answer  func(*counted) error
		failure string
		status  int
		hangs   bool // ended by the deadline
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
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := newRudeServer(t, false, c.answer)
			s, err := newSender(loopback, server.authority, patience, time.Now)
			check.NoError(t, err)
			if c.hangs {
				s.timeout = 2 * time.Second // long enough for a busy machine to get as far
			}
			came := s.post(t.Context(), post{managed: true, url: server.url, eventID: uuid.New(), body: []byte("{}")})
			if came.failure != c.failure || came.status != c.status {
				t.Errorf("came to %+v, want %q and %d", came, c.failure, c.status)
			}
			(&http.Client{Transport: s.allowing.transport}).CloseIdleConnections()
			if n := server.written.Load(); n > 64<<20 {
				t.Errorf("%d bytes were taken", n)
			}
		})
	}
	t.Run("never shakes hands", func(t *testing.T) {
		t.Parallel()
		server := newRudeServer(t, true, nil)
		s, err := newSender(loopback, server.authority, time.Second, time.Now)
		check.NoError(t, err)
		if came := s.post(t.Context(), post{managed: true, url: server.url, eventID: uuid.New()}); came.failure != "timeout" {
			t.Errorf("came to %+v", came)
		}
		testkit.Eventually(t, "the connection is closed", func() bool { return server.left.Load() == 1 })
	})
}

func TestOnlyATrustedCertificateForTheNameIsDeliveredTo(t *testing.T) {
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
			s, err := newSender(loopback, authority, patience, time.Now)
			check.NoError(t, err)
			came := s.post(t.Context(), post{managed: true, url: server.URL, eventID: uuid.New(), body: []byte("{}")})
			if came.failure != c.want || (asked.Load() > 0) != (c.want == "") {
				t.Errorf("came to %+v, want %q; the receiver was asked %d times", came, c.want, asked.Load())
			}
		})
	}
	t.Run("none: plain HTTP", func(t *testing.T) {
		server := httptest.NewServer(http.NotFoundHandler())
		defer server.Close()
		s, err := newSender(loopback, nil, patience, time.Now)
		check.NoError(t, err)
		if came := s.post(t.Context(), post{managed: true, url: strings.Replace(server.URL, "http:", "https:", 1), eventID: uuid.New()}); came.failure != "tls" {
			t.Errorf("came to %+v", came)
		}
	})
}
