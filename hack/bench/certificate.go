package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// certificate is the receiver's own, for its loopback addresses, and signed by itself.
type certificate struct {
	certFile, keyFile string
	pool              *x509.CertPool
}

func makeCertificate(dir string, now time.Time) (certificate, error) {
	made := certificate{certFile: filepath.Join(dir, "cert.pem"), keyFile: filepath.Join(dir, "key.pem"), pool: x509.NewCertPool()}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return made, fmt.Errorf("make a certificate: %w", err)
	}
	var addresses []net.IP
	for i := range hosts {
		addresses = append(addresses, net.ParseIP(endpointHost(i)))
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "examprep bench receiver"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour), IPAddresses: addresses,
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return made, fmt.Errorf("make a certificate: %w", err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return made, fmt.Errorf("make a certificate: %w", err)
	}
	certPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	made.pool.AppendCertsFromPEM(certPEM)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return made, fmt.Errorf("make a certificate: %w", err)
	}
	if err := os.WriteFile(made.certFile, certPEM, 0o600); err != nil {
		return made, fmt.Errorf("make a certificate: %w", err)
	}
	return made, os.WriteFile(made.keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}), 0o600)
}

// trust is the TLS configuration of a client that believes the receiver.
func (c certificate) trust() *tls.Config {
	return &tls.Config{RootCAs: c.pool, MinVersion: tls.VersionTLS12}
}
