package main

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

func deliver(t *testing.T, r *receiver, secret string, at time.Time) (int, entry) {
	t.Helper()
	answer, written := deliverTo(t, r, "/hook", secret, at)
	return answer.Code, written
}

func deliverTo(t *testing.T, r *receiver, path, secret string, at time.Time) (*httptest.ResponseRecorder, entry) {
	t.Helper()
	var out bytes.Buffer
	r.log = &out
	const body = `{"event":"exam.content_updated","created":1,"data":{"a":"é"},"id":"1","dedupe_key":"1"}`
	mac := hmac.New(sha256.New, []byte(secret))
	_, _ = fmt.Fprintf(mac, "%d.%s", at.Unix(), body)
	request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, strings.NewReader(body))
	request.Header.Set("Service-Signature", fmt.Sprintf("t=%d,v1=%s", at.Unix(), hex.EncodeToString(mac.Sum(nil))))
	answer := httptest.NewRecorder()
	r.ServeHTTP(answer, request)
	var written entry
	testkit.Decode(t, out.Bytes(), &written)
	if written.Body != body {
		t.Errorf("body %q, want the exact text", written.Body)
	}
	return answer, written
}

func TestDeliveriesFailWhileTheFileExists(t *testing.T) {
	dir, now := t.TempDir(), time.Unix(1767225600, 0)
	secrets, failFile := filepath.Join(dir, "secrets"), filepath.Join(dir, "receiver.fail")
	testkit.WriteFile(t, secrets, []byte("whsec_a"))
	r := &receiver{secretFile: secrets, failFile: failFile, now: func() time.Time { return now }}
	for _, c := range []struct {
		name, secret string
		change       func() error
		status       int
		body         string
	}{
		{"before the file exists", "whsec_a", nil, http.StatusOK, ""},
		{
			"while the file exists", "whsec_a", func() error { return os.WriteFile(failFile, nil, 0o600) },
			http.StatusServiceUnavailable, "the receiver is down: delete receiver.fail to repair it\n",
		},
		{
			"while the file exists, with a wrong secret", "whsec_b", nil,
			http.StatusServiceUnavailable, "the receiver is down: delete receiver.fail to repair it\n",
		},
		{"after the file was deleted", "whsec_a", func() error { return os.Remove(failFile) }, http.StatusOK, ""},
	} {
		if c.change != nil {
			check.NoError(t, c.change())
		}
		answer, written := deliverTo(t, r, "/hook", c.secret, now)
		if answer.Code != c.status || written.Status != c.status || answer.Body.String() != c.body {
			t.Errorf("%s: %d %q, logged as %d, want %d %q", c.name, answer.Code, answer.Body, written.Status, c.status, c.body)
		}
	}
}

func TestADeliveryIsRepeatedOnlyAtItsOwnPath(t *testing.T) {
	secrets, now := filepath.Join(t.TempDir(), "secrets"), time.Unix(1767225600, 0)
	testkit.WriteFile(t, secrets, []byte("whsec_a"))
	r := &receiver{secretFile: secrets, now: func() time.Time { return now }}
	for _, c := range []struct {
		path     string
		repeated bool
	}{{"/all", false}, {"/account", false}, {"/all", true}, {"/account", true}} {
		_, written := deliverTo(t, r, c.path, "whsec_a", now)
		if written.Repeated != c.repeated || written.Path != c.path {
			t.Errorf("%s: repeated %v, want %v; logged with the path %q", c.path, written.Repeated, c.repeated, written.Path)
		}
	}
}

func TestDeliveriesAreVerifiedByAnySecretAndWrittenDown(t *testing.T) {
	secrets := filepath.Join(t.TempDir(), "secrets")
	now := time.Unix(1767225600, 0)
	r := &receiver{secretFile: secrets, now: func() time.Time { return now }}
	if code, e := deliver(t, r, "whsec_a", now); code != http.StatusBadRequest || e.Verified || e.Repeated {
		t.Errorf("before a secret is known: %d, verified %v", code, e.Verified)
	}
	testkit.WriteFile(t, secrets, []byte("whsec_old\nwhsec_a\n"))
	if code, e := deliver(t, r, "whsec_a", now); code != http.StatusOK || !e.Verified || e.Repeated {
		t.Errorf("with the secret: %d, refused: %s", code, e.Refused)
	}
	if code, e := deliver(t, r, "whsec_a", now.Add(-time.Hour)); code != http.StatusBadRequest || e.Verified {
		t.Errorf("replayed: %d, verified %v", code, e.Verified)
	}
	if _, e := deliver(t, r, "whsec_a", now); !e.Repeated {
		t.Error("a repetition of the verified delivery is taken for a new event")
	}
	r.fail = 1
	if code, e := deliver(t, r, "whsec_a", now); code != http.StatusInternalServerError || e.Status != code {
		t.Errorf("planned failure: %d, written %d", code, e.Status)
	}
}

func TestTheCertificateIsMadeOnceAndTrustedByItsAuthority(t *testing.T) {
	dir := t.TempDir()
	first, err := loadCertificate(dir, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	second, err := loadCertificate(dir, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first.Certificate[0], second.Certificate[0]) {
		t.Error("a second start made another certificate")
	}
	pem := testkit.ReadFile(t, filepath.Join(dir, "ca.pem"))
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pem)
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.TLS = &tls.Config{Certificates: []tls.Certificate{first}, MinVersion: tls.VersionTLS12}
	server.StartTLS()
	defer server.Close()
	visitor := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := visitor.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
}

func TestTheLogIsServedFromAnOffsetToWhoeverAsksForIt(t *testing.T) {
	logFile := filepath.Join(t.TempDir(), "log")
	testkit.WriteFile(t, logFile, []byte("first\nsecond\n"))
	for _, c := range []struct {
		name, offset string
		serveLog     bool
		status       int
		body         string
	}{
		{"from its beginning", "0", true, http.StatusPartialContent, "first\nsecond\n"},
		{"from a line", "6", true, http.StatusPartialContent, "second\n"},
		{"from its end", "13", true, http.StatusRequestedRangeNotSatisfiable, ""},
		{"not unless it is told to", "0", false, http.StatusMethodNotAllowed, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/log", http.NoBody)
			request.Header.Set("Range", "bytes="+c.offset+"-")
			answer := httptest.NewRecorder()
			(&receiver{serveLog: c.serveLog, logFile: logFile}).ServeHTTP(answer, request)
			if answer.Code != c.status || c.body != "" && answer.Body.String() != c.body {
				t.Errorf("%d %q, want %d %q", answer.Code, answer.Body, c.status, c.body)
			}
		})
	}
}
