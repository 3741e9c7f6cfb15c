package seals

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"strings"
	"testing"

	"github.com/hiddeco/sshsig"
	"golang.org/x/crypto/ssh"

	"examprep.dev/server/testkit/check"
)

func statementOfAnn() Statement {
	return Statement{
		ExamKey: "xx-sample", PaperID: "xx-sample-2023", Digest: "sha256:" + strings.Repeat("0a", 32),
		By: "ann@example.org", At: "2026-01-31",
	}
}

func messageOf(t testing.TB, statement Statement) []byte {
	t.Helper()
	message, err := statement.Message()
	check.NoError(t, err)
	return message
}

func newSSHKey(t testing.TB) ssh.Signer {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	check.NoError(t, err)
	return sshKey(t, private)
}

func sshKey(t testing.TB, private crypto.Signer) ssh.Signer {
	t.Helper()
	key, err := ssh.NewSignerFromSigner(private)
	check.NoError(t, err)
	return key
}

func newECDSA(t testing.TB, curve elliptic.Curve) *ecdsa.PrivateKey {
	t.Helper()
	private, err := ecdsa.GenerateKey(curve, rand.Reader)
	check.NoError(t, err)
	return private
}

func authorized(key ssh.PublicKey) string {
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key)))
}

func sign(t testing.TB, key ssh.Signer, namespace string, statement Statement) string {
	t.Helper()
	signed, err := sshsig.Sign(bytes.NewReader(messageOf(t, statement)), key, sshsig.HashSHA512, namespace)
	check.NoError(t, err)
	return string(sshsig.Armor(signed))
}

func publicPEM(t testing.TB, key crypto.PublicKey) string {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(key)
	check.NoError(t, err)
	return string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
}

func signRaw(t testing.TB, key crypto.Signer, statement Statement) string {
	t.Helper()
	message, hash := messageOf(t, statement), crypto.Hash(0)
	if _, isECDSA := key.(*ecdsa.PrivateKey); isECDSA {
		digest := sha256.Sum256(message)
		message, hash = digest[:], crypto.SHA256
	}
	raw, err := key.Sign(rand.Reader, message, hash)
	check.NoError(t, err)
	return base64.StdEncoding.EncodeToString(raw)
}

func parse(t testing.TB, lines ...string) *Set {
	t.Helper()
	set, err := Parse("trusted", []byte(strings.Join(lines, "\n")+"\n"))
	check.NoError(t, err)
	return set
}
