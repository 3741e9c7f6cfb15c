package seals

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
)

const (
	// MaxFile is how many bytes a file of trusted verifiers may have.
	MaxFile = 1 << 20
	// minRSABits is the smallest RSA key that is trusted.
	minRSABits = 2048
)

// FileError says what makes a file of trusted verifiers unusable.
type FileError struct {
	Path string
	// Line counts from 1; 0 when it is the file as a whole.
	Line   int
	Detail string
}

func (e *FileError) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("trusted verifiers %s: %s", e.Path, e.Detail)
	}
	return fmt.Sprintf("trusted verifiers %s:%d: %s", e.Path, e.Line, e.Detail)
}

// Parse reads a file of trusted verifiers; name stands in errors. It fails with a *FileError: a line that is not
// understood is refused and not passed over, for it may be the one that was to limit a key.
func Parse(name string, text []byte) (*Set, error) {
	if len(text) > MaxFile {
		return nil, &FileError{Path: name, Detail: fmt.Sprintf("has more than %d bytes", MaxFile)}
	}
	set := &Set{identity: sha256.Sum256(text)}
	lines := strings.Split(strings.ReplaceAll(string(text), "\r\n", "\n"), "\n")
	for i := 0; i < len(lines); i++ {
		line := strings.TrimSpace(lines[i])
		first := i
		var err error
		switch {
		case line == "" || line[0] == '#':
			continue
		case strings.HasPrefix(line, "-----BEGIN "):
			for i < len(lines)-1 && !strings.HasPrefix(strings.TrimSpace(lines[i]), "-----END ") {
				i++
			}
			err = set.addPEM(strings.Join(lines[first:i+1], "\n"))
		default:
			err = set.addSigner(line)
		}
		if err != nil {
			return nil, &FileError{Path: name, Line: first + 1, Detail: err.Error()}
		}
	}
	if set.Len() == 0 {
		return nil, &FileError{Path: name, Detail: "holds no key: nothing could ever be published"}
	}
	return set, nil
}

func (s *Set) addPEM(text string) error {
	block, rest := pem.Decode([]byte(text))
	if block == nil || len(bytes.TrimSpace(rest)) > 0 {
		return errors.New("begins a PEM block that cannot be read")
	}
	if strings.Contains(block.Type, "PRIVATE KEY") {
		return errors.New("is a private key, which does not belong here: put the public key in its place, and make a new pair")
	}
	if block.Type != "PUBLIC KEY" {
		return fmt.Errorf("is a PEM block of type %.40q; PUBLIC KEY is understood", block.Type)
	}
	key, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return errors.New("is no public key that can be read")
	}
	if err := checkPEM(key); err != nil {
		return err
	}
	s.keys = append(s.keys, key)
	return nil
}

func checkPEM(key crypto.PublicKey) error {
	switch key := key.(type) {
	case *ecdsa.PublicKey:
		if key.Curve != elliptic.P256() {
			return fmt.Errorf("is an ECDSA key on %s; P-256 is understood", key.Curve.Params().Name)
		}
	case ed25519.PublicKey:
	default:
		return errors.New("is a key that is neither ECDSA P-256 nor Ed25519")
	}
	return nil
}

// addSigner reads a line of allowed_signers: principals, options, key type, key, comment.
func (s *Set) addSigner(line string) error {
	principals, rest, err := cutPrincipals(line)
	if err != nil {
		return err
	}
	added := signer{principals: principals}
	key, _, options, _, err := ssh.ParseAuthorizedKey([]byte(rest))
	if err != nil {
		return errors.New("is no line of allowed_signers (principals, options, key type, base64 key)")
	}
	added.key, added.marshalled = key, key.Marshal()
	if err := checkSSH(key); err != nil {
		return err
	}
	for _, option := range options {
		if err := added.option(option); err != nil {
			return err
		}
	}
	if !added.validAfter.IsZero() && !added.validBefore.IsZero() && added.validBefore.Before(added.validAfter) {
		return errors.New("has a valid-before that comes before its valid-after")
	}
	s.signers = append(s.signers, added)
	return nil
}

// cutPrincipals takes the first field of a line, which may be quoted.
func cutPrincipals(line string) (patternList, string, error) {
	var field strings.Builder
	quoted := false
	for i := range len(line) {
		switch c := line[i]; {
		case c == '"':
			quoted = !quoted
		case (c == ' ' || c == '\t') && !quoted:
			list, err := parseList(field.String())
			return list, strings.TrimSpace(line[i:]), err
		default:
			field.WriteByte(c)
		}
	}
	if quoted {
		return nil, "", errors.New("has a quote that is not closed")
	}
	return nil, "", errors.New("has principals and no key")
}

func parseList(text string) (patternList, error) {
	list := patternList(strings.Split(text, ","))
	for _, pattern := range list {
		if strings.TrimPrefix(pattern, "!") == "" {
			return nil, errors.New("has an empty entry in a list")
		}
	}
	return list, nil
}

func checkSSH(key ssh.PublicKey) error {
	if _, isCertificate := key.(*ssh.Certificate); isCertificate {
		return errors.New("is a certificate: list the verifiers' own keys")
	}
	if len(sshFormats(key.Type())) == 0 {
		return fmt.Errorf("has a key of type %.40q, which does not count", key.Type())
	}
	if plain, ok := key.(ssh.CryptoPublicKey); ok {
		if rsaKey, ok := plain.CryptoPublicKey().(*rsa.PublicKey); ok && rsaKey.N.BitLen() < minRSABits {
			return fmt.Errorf("has an RSA key of %d bits; at least %d are needed", rsaKey.N.BitLen(), minRSABits)
		}
	}
	return nil
}

func (l *signer) option(text string) error {
	name, value, _ := strings.Cut(text, "=")
	if unquoted, ok := strings.CutPrefix(value, `"`); ok {
		value = strings.TrimSuffix(unquoted, `"`)
	}
	var err error
	switch strings.ToLower(name) {
	case "namespaces":
		if l.namespaces != nil {
			return errors.New("has namespaces twice")
		}
		l.namespaces, err = parseList(value)
		return err
	case "valid-after":
		return parseTimestamp("valid-after", value, &l.validAfter)
	case "valid-before":
		return parseTimestamp("valid-before", value, &l.validBefore)
	case "cert-authority":
		return errors.New("has cert-authority, which is not supported: list the verifiers' own keys")
	default:
		return fmt.Errorf("has the unknown option %.40q", name)
	}
}

// parseTimestamp reads YYYYMMDD[Z] or YYYYMMDDHHMM[SS][Z], in UTC with or without the Z.
func parseTimestamp(option, value string, target *time.Time) error {
	if !target.IsZero() {
		return fmt.Errorf("has %s twice", option)
	}
	digits := strings.TrimSuffix(value, "Z")
	for _, layout := range []string{"20060102", "200601021504", "20060102150405"} {
		if len(layout) != len(digits) {
			continue
		}
		at, err := time.Parse(layout, digits)
		if err != nil {
			break
		}
		*target = at
		return nil
	}
	return fmt.Errorf("has %s=%.40q: YYYYMMDD[Z] or YYYYMMDDHHMM[SS][Z] is understood", option, value)
}
