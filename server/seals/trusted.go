package seals

import (
	"bytes"
	"crypto"
	"crypto/sha256"
	"encoding/hex"
	"path"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
)

// Set is who may verify papers. It never changes; a File makes a new one of a changed file.
type Set struct {
	signers []signer
	// keys are those without a name, from PEM.
	keys []crypto.PublicKey
	// identity is the digest of the text that the set was read from.
	identity [sha256.Size]byte
}

// signer is a line of allowed_signers.
type signer struct {
	key        ssh.PublicKey
	marshalled []byte
	principals patternList
	// namespaces is nil without the option.
	namespaces patternList
	// validAfter and validBefore are zero without the option; both moments are within.
	validAfter, validBefore time.Time
}

// Len is the number of keys.
func (s *Set) Len() int { return len(s.signers) + len(s.keys) }

// Identity is the same for sets that were read from the same text: signatures that counted by one count by the other.
func (s *Set) Identity() string { return hex.EncodeToString(s.identity[:]) }

// Verify returns nil if text is a trusted verifier's signature of statement, else a *SignatureError that says why it does
// not count.
func (s *Set) Verify(statement Statement, text string) error {
	signed, err := parseSignature(text)
	if err != nil {
		return err
	}
	message, err := statement.Message()
	if err != nil {
		return refusef("covers no message: %v", err)
	}
	if signed.ssh != nil {
		if err := s.admit(statement, signed.ssh.PublicKey); err != nil {
			return err
		}
		return verifySSH(signed.ssh, message)
	}
	for _, key := range s.keys {
		if verifyRaw(key, message, signed.raw) {
			return nil
		}
	}
	return refusef("is none of this seal by any of the %d trusted PEM keys", len(s.keys))
}

// admit looks for a line that lets key sign as statement.By at statement.At. Among several lines of the key one is
// enough; of those that refuse, the last says why.
func (s *Set) admit(statement Statement, key ssh.PublicKey) error {
	marshalled, fingerprint := key.Marshal(), ssh.FingerprintSHA256(key)
	refusal := refusef("is of key %s, which is no trusted verifier's", fingerprint)
	for i := range s.signers {
		line := &s.signers[i]
		if !bytes.Equal(line.marshalled, marshalled) {
			continue
		}
		if refusal = line.admit(statement, fingerprint); refusal == nil {
			return nil
		}
	}
	return refusal
}

func (l *signer) admit(statement Statement, fingerprint string) error {
	if !l.principals.match(statement.By) {
		return refusef("is of key %s, which may not sign as %.80q: verification.by must be one of its principals", fingerprint, statement.By)
	}
	if l.namespaces != nil && !l.namespaces.match(Namespace) {
		return refusef("is of key %s, which is trusted in other namespaces than %s", fingerprint, Namespace)
	}
	at, err := statement.time()
	switch {
	case err != nil:
		return refusef("has no time: verification.at is %.40q", statement.At)
	case !l.validAfter.IsZero() && at.Before(l.validAfter):
		return refusef("is of key %s, which is valid from %s on; verification.at is %s",
			fingerprint, l.validAfter.Format(time.RFC3339), statement.At)
	case !l.validBefore.IsZero() && at.After(l.validBefore):
		return refusef("is of key %s, which was valid until %s; verification.at is %s",
			fingerprint, l.validBefore.Format(time.RFC3339), statement.At)
	}
	return nil
}

// patternList is OpenSSH's: names with * and ?, a ! before one that must not match.
type patternList []string

func (p patternList) match(name string) bool {
	matched := false
	for _, pattern := range p {
		pattern, negated := strings.CutPrefix(pattern, "!")
		if !matches(pattern, name) {
			continue
		}
		if negated {
			return false
		}
		matched = true
	}
	return matched
}

// matches knows * and ? alone, over any characters.
func matches(pattern, name string) bool {
	// path.Match takes brackets and backslashes for more, and stops at slashes.
	escape := strings.NewReplacer(`\`, `\\`, `[`, `\[`, `/`, "\x00")
	matched, err := path.Match(escape.Replace(pattern), strings.ReplaceAll(name, "/", "\x00"))
	return err == nil && matched
}
