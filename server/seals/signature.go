package seals

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"slices"
	"strings"

	"github.com/hiddeco/sshsig"
	"golang.org/x/crypto/ssh"
)

// MaxSignature is how many bytes verification.signature may have: an armored one of an 8192 bit RSA key has 3,000.
const MaxSignature = 4096

// SignatureError says why a signature does not count. Detail reads on from "the signature".
type SignatureError struct{ Detail string }

func (e *SignatureError) Error() string { return "the signature " + e.Detail }

func refusef(format string, args ...any) error {
	return &SignatureError{Detail: fmt.Sprintf(format, args...)}
}

// signature is one of the two forms.
type signature struct {
	// ssh is what ssh-keygen made; nil for the other form.
	ssh *sshsig.Signature
	// raw is what cosign or openssl made.
	raw []byte
}

// parseSignature reads verification.signature, which is anybody's text.
func parseSignature(text string) (signature, error) {
	if len(text) > MaxSignature {
		return signature{}, refusef("has %d bytes; there may be %d", len(text), MaxSignature)
	}
	text = strings.TrimSpace(text)
	if text == "" {
		return signature{}, refusef("is missing")
	}
	if strings.HasPrefix(text, "-----BEGIN ") {
		return parseArmored([]byte(text))
	}
	raw, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(text), ""))
	if err != nil {
		return signature{}, refusef("is neither what ssh-keygen -Y sign prints nor base64 as cosign sign-blob prints it")
	}
	return signature{raw: raw}, nil
}

// sshFormats are the signature formats that count, by the type of the key. Not among them: DSA, RSA with SHA-1, and
// certificates, whose authority nobody here could check.
func sshFormats(keyType string) []string {
	switch keyType {
	case ssh.KeyAlgoRSA:
		return []string{ssh.KeyAlgoRSASHA256, ssh.KeyAlgoRSASHA512}
	case ssh.KeyAlgoED25519, ssh.KeyAlgoECDSA256, ssh.KeyAlgoECDSA384, ssh.KeyAlgoECDSA521, ssh.KeyAlgoSKED25519, ssh.KeyAlgoSKECDSA256:
		return []string{keyType}
	default:
		return nil
	}
}

func parseArmored(text []byte) (signature, error) {
	block, rest := pem.Decode(text)
	switch {
	case block == nil:
		return signature{}, refusef("is damaged: its armor cannot be read")
	case block.Type != sshsig.PEMType || len(block.Headers) > 0:
		return signature{}, refusef("must be one SSH SIGNATURE, as ssh-keygen -Y sign prints it")
	case len(bytes.TrimSpace(rest)) > 0:
		return signature{}, refusef("is followed by something else")
	}
	parsed, err := sshsig.ParseSignature(block.Bytes)
	if err != nil {
		return signature{}, refusef("is damaged or of a kind that does not count: %v", err)
	}
	if !slices.Contains(sshFormats(parsed.PublicKey.Type()), parsed.Signature.Format) {
		return signature{}, refusef("of a key of type %.40q in the form %.40q does not count",
			parsed.PublicKey.Type(), parsed.Signature.Format)
	}
	if parsed.Namespace != Namespace {
		return signature{}, refusef("is for the namespace %.80q: sign with ssh-keygen -Y sign -n %s", parsed.Namespace, Namespace)
	}
	return signature{ssh: parsed}, nil
}

// verifySSH checks a signature by the key that it names itself.
func verifySSH(signed *sshsig.Signature, message []byte) error {
	err := sshsig.Verify(bytes.NewReader(message), signed, signed.PublicKey, signed.HashAlgorithm, Namespace)
	if err != nil {
		return refusef("of key %s is not one of this seal: the paper, its exam or the seal was changed after it was signed",
			ssh.FingerprintSHA256(signed.PublicKey))
	}
	return nil
}

// verifyRaw reports whether raw is a signature of message by key, which parsePEM let through.
func verifyRaw(key crypto.PublicKey, message, raw []byte) bool {
	switch key := key.(type) {
	case *ecdsa.PublicKey:
		digest := sha256.Sum256(message)
		return ecdsa.VerifyASN1(key, digest[:], raw)
	case ed25519.PublicKey:
		if ed25519.Verify(key, message, raw) {
			return true
		}
		digest := sha512.Sum512(message)
		return ed25519.VerifyWithOptions(key, digest[:], raw, &ed25519.Options{Hash: crypto.SHA512}) == nil
	default:
		return false
	}
}

// Inspect tells what can be told of a signature without knowing whom to trust: whether it can be read, and whether one
// of ssh-keygen's covers statement. It fails with a *SignatureError.
func Inspect(statement Statement, text string) error {
	signed, err := parseSignature(text)
	if err != nil || signed.ssh == nil {
		return err
	}
	message, err := statement.Message()
	if err != nil {
		return err
	}
	return verifySSH(signed.ssh, message)
}
