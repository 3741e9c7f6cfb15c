package testkit

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"math/big"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"examprep.dev/server/testkit/check"
)

// Secret returns 32 equal bytes in base64, for a flag or a variable of the product.
func Secret(letter byte) string {
	return base64.StdEncoding.EncodeToString([]byte(strings.Repeat(string(letter), 32)))
}

// PEM returns a certificate in PEM form.
func PEM(certificate []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate})
}

// CAPEM returns the certificate that clients of a TLS server must trust.
func CAPEM(server *httptest.Server) []byte { return PEM(server.Certificate().Raw) }

// CAFile writes CAPEM to a file and returns its path.
func CAFile(t testing.TB, server *httptest.Server) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ca.pem")
	check.NoError(t, os.WriteFile(path, CAPEM(server), 0o600))
	return path
}

// Certificate makes a self-signed certificate of a server on 127.0.0.1. change can change its template.
func Certificate(t testing.TB, change func(*x509.Certificate)) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "receiver"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	change(template)
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	check.NoError(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}
