// Package sealstest makes verifiers for tests: a key, its line in a file of trusted verifiers, and signatures by it.
package sealstest

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"strings"
	"testing"

	"github.com/hiddeco/sshsig"
	"golang.org/x/crypto/ssh"

	"examprep.dev/server/seals"
	"examprep.dev/server/testkit/check"
)

// Verifier is somebody with an SSH key.
type Verifier struct{ key ssh.Signer }

// New makes a verifier with a key of its own.
func New(t testing.TB) Verifier {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	check.NoError(t, err)
	key, err := ssh.NewSignerFromSigner(private)
	check.NoError(t, err)
	return Verifier{key}
}

// Line trusts the verifier under principals, in OpenSSH's allowed_signers format.
func (v Verifier) Line(principals string) string {
	return principals + " " + strings.TrimSpace(string(ssh.MarshalAuthorizedKey(v.key.PublicKey()))) + "\n"
}

// Sign returns what ssh-keygen -Y sign -n examprep.dev prints.
func (v Verifier) Sign(t testing.TB, statement seals.Statement) string {
	t.Helper()
	message, err := statement.Message()
	check.NoError(t, err)
	signed, err := sshsig.Sign(bytes.NewReader(message), v.key, sshsig.HashSHA512, seals.Namespace)
	check.NoError(t, err)
	return string(sshsig.Armor(signed))
}

// Trust reads lines as a file of trusted verifiers.
func Trust(t testing.TB, lines ...string) *seals.Set {
	t.Helper()
	set, err := seals.Parse("trusted", []byte(strings.Join(lines, "")))
	check.NoError(t, err)
	return set
}
