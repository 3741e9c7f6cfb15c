package controlplane

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
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

const (
	// validity is the lifetime of every certificate. A start replaces an authority that expires within renewBefore.
	validity    = 365 * 24 * time.Hour
	renewBefore = 30 * 24 * time.Hour
)

// authority signs the certificates of one control plane. Its key and certificate are files of a directory.
type authority struct {
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// openAuthority reads the authority of a directory. It makes a new one if there is none or if it expires soon; then all
// certificates of the old one are invalid.
func openAuthority(dir string, now time.Time) (*authority, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the control plane's directory: %w", err)
	}
	a := &authority{dir: dir}
	if a.read() == nil && a.cert.NotAfter.Sub(now) > renewBefore {
		return a, nil
	}
	key, err := newKey()
	if err != nil {
		return nil, err
	}
	a.key = key
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: "examprep development"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := a.sign(template, template, &a.key.PublicKey, now)
	if err != nil {
		return nil, err
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		return nil, fmt.Errorf("make a certificate authority: %w", err)
	}
	return a, writePair(dir, "ca", der, a.key)
}

func (a *authority) read() error {
	certPEM, errCert := os.ReadFile(filepath.Join(a.dir, "ca.crt"))
	keyPEM, errKey := os.ReadFile(filepath.Join(a.dir, "ca.key"))
	if err := errors.Join(errCert, errKey); err != nil {
		return err
	}
	certBlock, _ := pem.Decode(certPEM)
	keyBlock, _ := pem.Decode(keyPEM)
	if certBlock == nil || keyBlock == nil {
		return errors.New("not PEM")
	}
	var err error
	if a.cert, err = x509.ParseCertificate(certBlock.Bytes); err != nil {
		return fmt.Errorf("read the authority's certificate: %w", err)
	}
	if a.key, err = x509.ParseECPrivateKey(keyBlock.Bytes); err != nil {
		return fmt.Errorf("read the authority's key: %w", err)
	}
	return nil
}

// server makes NAME.crt and NAME.key for a server on the loopback address, which may also be a client of its peers.
func (a *authority) server(name string, now time.Time) error {
	der, key, err := a.issue(&x509.Certificate{
		Subject:     pkix.Name{CommonName: name},
		DNSNames:    []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv4(10, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, now)
	if err != nil {
		return err
	}
	return writePair(a.dir, name, der, key)
}

// client makes a certificate that names a user and the groups it is in, and returns both parts in PEM.
func (a *authority) client(user string, groups []string, now time.Time) (cert, key []byte, err error) {
	der, private, err := a.issue(&x509.Certificate{
		Subject:     pkix.Name{CommonName: user, Organization: groups},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, now)
	if err != nil {
		return nil, nil, err
	}
	return encodePair(der, private)
}

func (a *authority) issue(template *x509.Certificate, now time.Time) ([]byte, *ecdsa.PrivateKey, error) {
	key, err := newKey()
	if err != nil {
		return nil, nil, err
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	der, err := a.sign(template, a.cert, &key.PublicKey, now)
	return der, key, err
}

func (a *authority) sign(template, parent *x509.Certificate, public *ecdsa.PublicKey, now time.Time) ([]byte, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, fmt.Errorf("sign a certificate: %w", err)
	}
	template.SerialNumber = serial
	template.NotBefore = now.Add(-time.Hour)
	template.NotAfter = now.Add(validity)
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, a.key)
	if err != nil {
		return nil, fmt.Errorf("sign a certificate: %w", err)
	}
	return der, nil
}

// certificatePEM is the authority's certificate as clients take it.
func (a *authority) certificatePEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
}

func newKey() (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	return key, nil
}

func encodePair(der []byte, key *ecdsa.PrivateKey) (cert, private []byte, err error) {
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, nil, fmt.Errorf("encode a key: %w", err)
	}
	cert = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return cert, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER}), nil
}

func writePair(dir, name string, der []byte, key *ecdsa.PrivateKey) error {
	cert, private, err := encodePair(der, key)
	if err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(filepath.Join(dir, name+".crt"), cert, 0o600),
		os.WriteFile(filepath.Join(dir, name+".key"), private, 0o600),
	)
}

// serviceAccountKey makes the pair that service accounts' tokens are signed with, unless it exists.
func serviceAccountKey(dir string) error {
	if _, err := os.Stat(filepath.Join(dir, "sa.pub")); err == nil {
		return nil
	}
	key, err := newKey()
	if err != nil {
		return err
	}
	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return fmt.Errorf("encode a key: %w", err)
	}
	public, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		return fmt.Errorf("encode a key: %w", err)
	}
	var privatePEM, publicPEM bytes.Buffer
	err = errors.Join(
		pem.Encode(&privatePEM, &pem.Block{Type: "EC PRIVATE KEY", Bytes: private}),
		pem.Encode(&publicPEM, &pem.Block{Type: "PUBLIC KEY", Bytes: public}),
		os.WriteFile(filepath.Join(dir, "sa.key"), privatePEM.Bytes(), 0o600),
		os.WriteFile(filepath.Join(dir, "sa.pub"), publicPEM.Bytes(), 0o600),
	)
	if err != nil {
		return fmt.Errorf("make the key of service accounts: %w", err)
	}
	return nil
}
