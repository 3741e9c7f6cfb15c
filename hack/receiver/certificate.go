package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// validity of the development certificates; they are made again when the folder is emptied.
const validity = 5 * 365 * 24 * time.Hour

// loadCertificate reads the server's certificate from dir, and makes it and its authority when there is none. The
// authority's key is thrown away: nothing else will ever be signed by it.
func loadCertificate(dir string, now time.Time) (tls.Certificate, error) {
	certFile, keyFile := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	certificate, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err == nil || !errors.Is(err, os.ErrNotExist) {
		return certificate, err //nolint:wrapcheck // crypto/tls names the file
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return tls.Certificate{}, fmt.Errorf("make certificate folder: %w", err)
	}
	if err := makeCertificates(dir, certFile, keyFile, now); err != nil {
		return tls.Certificate{}, fmt.Errorf("make certificates: %w", err)
	}
	return tls.LoadX509KeyPair(certFile, keyFile) //nolint:wrapcheck // crypto/tls names the file
}

func makeCertificates(dir, certFile, keyFile string, now time.Time) error {
	authorityKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	authority := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "examprep development receiver"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(validity),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	authorityDER, err := x509.CreateCertificate(rand.Reader, authority, authority, authorityKey.Public(), authorityKey)
	if err != nil {
		return err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "localhost"},
		DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(validity),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	leafDER, err := x509.CreateCertificate(rand.Reader, leaf, authority, key.Public(), authorityKey)
	if err != nil {
		return err
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	// The certificate goes last: loadCertificate finds either all or nothing.
	return errors.Join(
		writePEM(filepath.Join(dir, "ca.pem"), "CERTIFICATE", authorityDER, 0o644),
		writePEM(keyFile, "PRIVATE KEY", keyDER, 0o600),
		writePEM(certFile, "CERTIFICATE", leafDER, 0o644))
}

func writePEM(name, kind string, der []byte, mode os.FileMode) error {
	return os.WriteFile(name, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), mode)
}
