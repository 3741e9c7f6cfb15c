package seals

import (
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"strings"
	"testing"

	"examprep.dev/server/testkit/check"
)

func TestABadFileIsRefusedWithItsLine(t *testing.T) {
	key := authorized(newSSHKey(t).PublicKey())
	good := "# the board\n\nann@example.org " + key + "\n"
	weak, err := rsa.GenerateKey(rand.Reader, 1024)
	check.NoError(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(newECDSA(t, elliptic.P256()))
	check.NoError(t, err)
	privatePEM := string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}))
	for name, test := range map[string]struct {
		text string
		line int
		want string
	}{
		"nothing":                 {"# nobody yet\n", 0, "holds no key"},
		"huge":                    {strings.Repeat("#", MaxFile+1), 0, "more than"},
		"no key":                  {good + "bob@example.org\n", 4, "principals and no key"},
		"a damaged key":           {good + "bob@example.org ssh-ed25519 AAAA\n", 4, "no line of allowed_signers"},
		"an authorized_keys":      {good + key + "\n", 4, "no line of allowed_signers"},
		"a quote left open":       {good + `"bob@example.org ` + key, 4, "quote that is not closed"},
		"an empty principal":      {good + "bob@example.org,,x " + key, 4, "empty entry"},
		"an unknown option":       {good + "bob@example.org no-touch-required " + key, 4, `unknown option "no-touch-required"`},
		"an authority":            {good + "*@example.org cert-authority " + key, 4, "cert-authority"},
		"a time of words":         {good + `* valid-before="tomorrow" ` + key, 4, `valid-before="tomorrow"`},
		"a month that is none":    {good + `* valid-after=20261301 ` + key, 4, "valid-after"},
		"an end before its start": {good + `* valid-after=20260201,valid-before=20260131 ` + key, 4, "comes before"},
		"an option twice":         {good + `* valid-after=20260201,valid-after=20260131 ` + key, 4, "valid-after twice"},
		"a weak key":              {good + "* " + authorized(sshKey(t, weak).PublicKey()), 4, "1024 bits"},
		"a private key":           {good + privatePEM, 4, "private key"},
		"a PEM that is cut":       {good + strings.Join(strings.SplitAfter(privatePEM, "\n")[:2], ""), 4, "cannot be read"},
		"another curve":           {good + publicPEM(t, newECDSA(t, elliptic.P384()).Public()), 4, "P-256 is understood"},
		"an RSA PEM":              {good + publicPEM(t, weak.Public()), 4, "neither ECDSA P-256 nor Ed25519"},
		"another PEM":             {good + "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n" + good, 4, `"CERTIFICATE"`},
		"no PEM key":              {good + "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n", 4, "no public key"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse("signers", []byte(test.text))
			refusal, ok := errors.AsType[*FileError](err)
			if !ok || refusal.Line != test.line || refusal.Path != "signers" || !strings.Contains(refusal.Error(), test.want) {
				t.Errorf("got %v, want line %d, …%s…", err, test.line, test.want)
			}
			if err != nil && strings.Contains(err.Error(), strings.Fields(key)[1]) {
				t.Errorf("the error shows a key: %v", err)
			}
		})
	}
}

func TestPatternsAreOpenSSHs(t *testing.T) {
	for _, test := range []struct {
		list, name string
		want       bool
	}{
		{"ann", "ann", true},
		{"ann", "Ann", false},
		{"ann", "anna", false},
		{"a*", "a/b c", true},
		{"a?n", "ann", true},
		{"a?n", "a/n", true},
		{"a?n", "an", false},
		{"*,!ann", "ann", false},
		{"!ann,*", "bob", true},
		{"!bob", "ann", false},
		{"[ab]", "a", false},
		{"[ab]", "[ab]", true},
		{`a\*`, `a\b`, true},
		{"*", "", true},
	} {
		list, err := parseList(test.list)
		check.NoError(t, err)
		check.Equal(t, list.match(test.name), test.want, "%q matches %q", test.list, test.name)
	}
}

// FuzzParse gives anybody's bytes to the reader of trusted verifiers.
func FuzzParse(f *testing.F) {
	key := authorized(newSSHKey(f).PublicKey())
	f.Add("* " + key)
	f.Add(`"a b",c namespaces="x y",valid-after=20260101,valid-before="20270101Z" ` + key + " comment\n# \n")
	f.Add(publicPEM(f, newECDSA(f, elliptic.P256()).Public()))
	f.Add("-----BEGIN PUBLIC KEY-----\n")
	f.Fuzz(func(t *testing.T, text string) {
		set, err := Parse("signers", []byte(text))
		if err != nil {
			refusal, ok := errors.AsType[*FileError](err)
			if !ok || refusal.Line < 0 || refusal.Line > strings.Count(text, "\n")+1 {
				t.Errorf("error %v", err)
			}
			return
		}
		if set.Len() == 0 {
			t.Error("a file without a key is taken")
		}
		if err := set.Verify(statementOfAnn(), ""); err == nil {
			t.Error("no signature counts")
		}
	})
}
