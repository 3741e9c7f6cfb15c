package seals

import (
	"bytes"
	"crypto"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha512"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"strings"
	"testing"

	"github.com/hiddeco/sshsig"
	"golang.org/x/crypto/ssh"

	"examprep.dev/server/testkit/check"
)

func TestTheMessageIsAsDocumented(t *testing.T) {
	statement := statementOfAnn()
	statement.By = `A. "B" <ann@example.org> & é`
	want := `{"at":"2026-01-31","by":"A. \"B\" <ann@example.org> & é","canonical":"examprep.dev/seal/v1",` +
		`"digest":"sha256:` + strings.Repeat("0a", 32) + `","exam_key":"xx-sample","paper_id":"xx-sample-2023"}` + "\n"
	check.Equal(t, string(messageOf(t, statement)), want, "message")
	statement.By = "ann\xff"
	if message, err := statement.Message(); err == nil {
		t.Errorf("a name that is not UTF-8 has the message %s", message)
	}
}

// trustedCase is a signature that counts, by a file that trusts its key.
type trustedCase struct{ file, signature string }

func TestATrustedSignatureCounts(t *testing.T) {
	statement := statementOfAnn()
	key := newSSHKey(t)
	signed := sign(t, key, Namespace, statement)
	line := authorized(key.PublicKey())
	ec, other := newECDSA(t, elliptic.P256()), newECDSA(t, elliptic.P256())
	edPublic, ed, err := ed25519.GenerateKey(rand.Reader)
	check.NoError(t, err)
	digest := sha512.Sum512(messageOf(t, statement))
	prehashed, err := ed.Sign(rand.Reader, digest[:], crypto.SHA512)
	check.NoError(t, err)
	ssh384 := sshKey(t, newECDSA(t, elliptic.P384()))
	wrapped := signRaw(t, ec, statement)
	for name, test := range map[string]trustedCase{
		"by name":             {"ann@example.org " + line, signed},
		"by one of the names": {"bob@example.org,ann@example.org " + line + " her laptop", signed},
		"by a pattern":        {"*@example.org " + line, signed},
		"by a quoted name":    {`"A B,ann@example.org" ` + line, signed},
		"in the namespace":    {`ann@example.org namespaces="file,examprep.*" ` + line, signed},
		"within the time":     {`ann@example.org valid-after="20260131",valid-before=20260131Z ` + line, signed},
		"by the second line":  {"bob@example.org " + line + "\n# and\n\nann@example.org " + line, signed},
		"with blank ends":     {"ann@example.org " + line, "\n " + signed + "\n\n"},
		"of ECDSA P-384":      {"ann@example.org " + authorized(ssh384.PublicKey()), sign(t, ssh384, Namespace, statement)},
		"of a PEM key":        {publicPEM(t, other.Public()) + publicPEM(t, ec.Public()), wrapped},
		"in wrapped base64":   {publicPEM(t, ec.Public()), wrapped[:40] + "\n" + wrapped[40:] + "\n"},
		"of Ed25519":          {publicPEM(t, edPublic), signRaw(t, ed, statement)},
		"of Ed25519ph":        {publicPEM(t, edPublic), base64.StdEncoding.EncodeToString(prehashed)},
		"with CRLF":           {"ann@example.org " + line + "\r\n" + strings.ReplaceAll(publicPEM(t, ec.Public()), "\n", "\r\n"), wrapped},
	} {
		t.Run(name, func(t *testing.T) {
			if err := parse(t, test.file).Verify(statement, test.signature); err != nil {
				t.Error(err)
			}
			check.Succeeds(t, Inspect(statement, test.signature), "inspected")
		})
	}
}

func TestASignatureCoversAllOfItsStatement(t *testing.T) {
	key, ec := newSSHKey(t), newECDSA(t, elliptic.P256())
	set := parse(t, "* "+authorized(key.PublicKey()), publicPEM(t, ec.Public()))
	statement := statementOfAnn()
	for name, signature := range map[string]string{
		"ssh-keygen": sign(t, key, Namespace, statement), "cosign": signRaw(t, ec, statement),
	} {
		for field, change := range map[string]func(*Statement){
			"exam":   func(s *Statement) { s.ExamKey += "x" },
			"paper":  func(s *Statement) { s.PaperID = "xx-sample-2024" },
			"digest": func(s *Statement) { s.Digest = "sha256:" + strings.Repeat("0b", 32) },
			"by":     func(s *Statement) { s.By = "bob@example.org" },
			"at":     func(s *Statement) { s.At = "2026-02-01" },
		} {
			changed := statement
			change(&changed)
			if err := set.Verify(changed, signature); err == nil {
				t.Errorf("%s: a signature counts for another %s", name, field)
			}
			if err := Inspect(changed, signature); name == "ssh-keygen" && err == nil {
				t.Errorf("%s: another %s is not seen without the keys", name, field)
			}
		}
		check.Succeeds(t, set.Verify(statement, signature), "%s", name)
	}
}

// hostileCase is a signature that does not count, and what says why. trusted overrides the file, which trusts key.
type hostileCase struct{ trusted, signature, want string }

func TestASignatureThatDoesNotCountSaysWhy(t *testing.T) {
	statement := statementOfAnn()
	key, stranger, ec := newSSHKey(t), newSSHKey(t), newECDSA(t, elliptic.P256())
	line := authorized(key.PublicKey())
	signed := sign(t, key, Namespace, statement)
	otherPaper := statement
	otherPaper.PaperID = "xx-sample-2024"
	cases := map[string]hostileCase{
		"none":                     {"", "", "is missing"},
		"blank":                    {"", " \n", "is missing"},
		"by a stranger":            {"", sign(t, stranger, Namespace, statement), "no trusted verifier's"},
		"in git's namespace":       {"", sign(t, key, "git", statement), `namespace "git": sign with ssh-keygen -Y sign -n examprep.dev`},
		"of another paper":         {"", sign(t, key, Namespace, otherPaper), "not one of this seal"},
		"in another name":          {"bob@example.org " + line, signed, `may not sign as "ann@example.org"`},
		"in a refused name":        {"!ann@*,*@example.org " + line, signed, "may not sign as"},
		"by a pattern's letter":    {"ann[@]example.org " + line, signed, "may not sign as"},
		"key for another use":      {`* namespaces="file" ` + line, signed, "trusted in other namespaces"},
		"key that has ended":       {`* valid-before="20260130" ` + line, signed, "was valid until 2026-01-30"},
		"key that is yet to begin": {`* valid-after="202601310001Z" ` + line, signed, "is valid from 2026-01-31T00:01:00Z on"},
		"cut short":                {"", signed[:len(signed)/2], "damaged"},
		"garbled":                  {"", strings.Replace(signed, "\n", "\nAAAA", 1), "damaged"},
		"two":                      {"", signed + signed, "followed by something else"},
		"a private key":            {"", "-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n-----END OPENSSH PRIVATE KEY-----\n", "must be one SSH SIGNATURE"},
		"with headers":             {"", strings.Replace(signed, "\n", "\nA: b\n\n", 1), "must be one SSH SIGNATURE"},
		"huge":                     {"", strings.Repeat(signed, 100), "there may be 4096"},
		"prose":                    {"", "Looks good to me!", "neither what ssh-keygen"},
		"of an unknown PEM key":    {"", signRaw(t, ec, statement), "by any of the 0 trusted PEM keys"},
		"SHA-1 of RSA":             {"", resigned(t, signed, ssh.KeyAlgoRSA), "does not count"},
		"sort that is not the key": {"", resigned(t, signed, ssh.KeyAlgoECDSA256), "does not count"},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			if test.trusted == "" {
				test.trusted = "* " + line
			}
			err := parse(t, test.trusted).Verify(statement, test.signature)
			if refusal, ok := errors.AsType[*SignatureError](err); !ok || !strings.Contains(refusal.Error(), test.want) {
				t.Errorf("got %v, want …%s…", err, test.want)
			}
		})
	}
}

// resigned replaces what a signature says its format is; with RSA its key too.
func resigned(t *testing.T, armored, format string) string {
	t.Helper()
	signed, err := sshsig.Unarmor([]byte(armored))
	check.NoError(t, err)
	signed.Signature.Format = format
	if format == ssh.KeyAlgoRSA {
		private, err := rsa.GenerateKey(rand.Reader, minRSABits)
		check.NoError(t, err)
		signed.PublicKey = sshKey(t, private).PublicKey()
	}
	return string(sshsig.Armor(signed))
}

func TestACertificateDoesNotStandForItsAuthority(t *testing.T) {
	authority, leaf := newSSHKey(t), newSSHKey(t)
	certificate := &ssh.Certificate{
		Key: leaf.PublicKey(), CertType: ssh.UserCert, ValidPrincipals: []string{"ann@example.org"}, ValidBefore: ssh.CertTimeInfinity,
	}
	check.NoError(t, certificate.SignCert(rand.Reader, authority))
	certified, err := ssh.NewCertSigner(certificate, leaf)
	check.NoError(t, err)
	statement := statementOfAnn()
	signed, err := sshsig.Sign(bytes.NewReader(messageOf(t, statement)), certified, sshsig.HashSHA512, Namespace)
	check.NoError(t, err)
	set := parse(t, "* "+authorized(authority.PublicKey()), "* "+authorized(leaf.PublicKey()))
	if err := set.Verify(statement, string(sshsig.Armor(signed))); err == nil {
		t.Error("a certificate counts")
	}
}

// FuzzVerify gives anybody's text to the check of signatures.
func FuzzVerify(f *testing.F) {
	statement := statementOfAnn()
	key, ec := newSSHKey(f), newECDSA(f, elliptic.P256())
	signed, raw := sign(f, key, Namespace, statement), signRaw(f, ec, statement)
	set := parse(f, "* "+authorized(key.PublicKey()), publicPEM(f, ec.Public()))
	for _, text := range []string{"", signed, raw, sign(f, key, "git", statement), signed[:100], "U1NIU0lH", "-----BEGIN SSH SIGNATURE-----"} {
		f.Add(text)
	}
	whole, _ := pem.Decode([]byte(signed))
	f.Fuzz(func(t *testing.T, text string) {
		if err := set.Verify(statement, text); err == nil {
			check.Succeeds(t, Inspect(statement, text), "counts, but")
			// Ed25519 and the parser leave no room for a second form of the one signature that was made.
			if block, _ := pem.Decode([]byte(strings.TrimSpace(text))); block != nil && !bytes.Equal(block.Bytes, whole.Bytes) {
				t.Errorf("another signature counts: %q", text)
			}
		} else if _, ok := errors.AsType[*SignatureError](err); !ok {
			t.Errorf("an error of another kind: %v", err)
		}
	})
}
