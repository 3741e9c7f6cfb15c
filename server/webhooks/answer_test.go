package webhooks

import (
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"
	"pgregory.net/rapid"
)

func TestAnAnswerIsKeptWithoutWhatWouldHarm(t *testing.T) {
	t.Parallel()
	const secret = "whsec_AAAAbbbbCCCCddddEEEEffffGGGGhhhhIIIIjjjjKKK"
	const hexadecimal = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	for name, c := range map[string]struct{ answer, want string }{
		"nothing":                          {"", ""},
		"a word":                           {"ok", "ok"},
		"JSON in lines":                    {"{\r\n\t\"error\": \"no such attempt\"\n}\n", `{   "error": "no such attempt" }`},
		"other scripts":                    {"Größe 试卷 ✓", "Größe 试卷 ✓"},
		"a terminal's escapes":             {"\x1b[31mred\x1b]0;title\x07", "[31mred]0;title"},
		"text that runs backwards":         {"a\u202eb\u2066c\u200bd\ufeff", "abcd"},
		"line and paragraph ends":          {"a\u2028b\u2029c\u0085d", "a b c d"},
		"NUL and other control characters": {"a\x00b\x01c\x7fd\u009be", "abcde"},
		"no UTF-8":                         {"a\xff\xfeb\xc3", "a\ufffd\ufffdb\ufffd"},
		"our secret":                       {"bad secret " + secret + "!", "bad secret [masked]!"},
		"another's secret":                 {"want whsec_other-1_2, sorry", "want [masked], sorry"},
		"our secret in upper case":         {"<" + strings.ToUpper(secret) + ">", "<[masked]>"},
		"our secret without its mark":      {"x" + secret[6:30] + "y", "x[masked]y"},
		"our secret, a little at a time":   {"AAAA bbbb-CCCC\x00dddd\nEEEE", "[masked]"},
		"our secret in UTF-16":             {"A\x00A\x00A\x00A\x00b\x00b\x00b\x00b\x00", "[masked]"},
		"half of our secret":               {"secret begins AAAAbbbbCC", "secret begins [masked]"},
		"the signature's form":             {"got t=1767225600,v1=" + hexadecimal + ",v1=" + hexadecimal[:16], "got t=1767225600,v1=[masked],v1=[masked]"},
		"an API key":                       {"key service_" + hexadecimal[:48] + " is revoked", "key [masked] is revoked"},
		"the public name of an API key":    {"key service_01234567 is revoked", "key service_01234567 is revoked"},
		"a word that begins like a key":    {`{"error":"service_unavailable"}`, `{"error":"service_unavailable"}`},
		"a bearer token":                   {"Authorization: bearer abc.def~ghi+/=", "Authorization: [masked] [masked]"},
		"a bearer token by itself":         {"sent Bearer abc.def~ghi", "sent Bearer [masked]"},
		"basic credentials":                {"sent Basic dXNlcjpwYXNzd29yZA==", "sent Basic [masked]"},
		"a JWT":                            {"<eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJ4In0.c2ln>", "<[masked]>"},
		"a JWT that was cut":               {"<eyJhbGciOi", "<[masked]"},
		"a password":                       {`{"password":"hunter2","user":"a"}`, `{"password":"[masked]","user":"a"}`},
		"a database's address":             {"dial postgres://gradebook:hunter2@db/x", "dial postgres://[masked]@db/x"},
		"a private key":                    {"-----BEGIN EC PRIVATE KEY-----\nMHcCAQ\nAwE\n", "[masked]"},
		"a token of no known form":         {"t " + strings.Repeat("aZ9-", 12), "t [masked]"},
		"a UUID":                           {"unknown 0195f3d0-0000-7000-8000-000000000000", "unknown 0195f3d0-0000-7000-8000-000000000000"},
		"a long text":                      {strings.Repeat("word ", 300), strings.Repeat("word ", 102) + "wo"},
		"a long text of long characters":   {strings.Repeat("é ", 300), strings.TrimSpace(strings.Repeat("é ", 170) + "é")},
	} {
		t.Run(name, func(t *testing.T) {
			start := []byte(c.answer)
			if got := cleanAnswer(start[:min(len(start), answerWindow)], []string{secret}); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// checkKept holds what was kept against its rules.
func checkKept(t rapid.TB, kept string, shared []string) {
	t.Helper()
	if len(kept) > maxKeptAnswer || !utf8.ValidString(kept) {
		t.Fatalf("%d bytes, valid %v: %q", len(kept), utf8.ValidString(kept), kept)
	}
	if i := strings.IndexFunc(kept, func(r rune) bool { return !unicode.IsGraphic(r) }); i >= 0 {
		t.Fatalf("%q at %d of %q", kept[i:], i, kept)
	}
	for piece := range strings.SplitSeq(kept, mask) {
		piece = strings.ToLower(piece)
		bare := strings.Map(keepLettersAndDigits, piece)
		for _, secret := range shared {
			secret = strings.ToLower(secret)
			for i := range len(secret) - minFragment + 1 {
				fragment := secret[i : i+minFragment]
				if strings.Contains(piece, fragment) {
					t.Fatalf("%q of a secret is in %q", fragment, kept)
				}
			}
			secret = strings.Map(keepLettersAndDigits, secret)
			for i := range max(0, len(secret)-minFragment+1) {
				if strings.Contains(bare, secret[i:i+minFragment]) {
					t.Fatalf("%q of a secret, broken up, is in %q", secret[i:i+minFragment], kept)
				}
			}
		}
	}
}

func keepLettersAndDigits(r rune) rune {
	if r < 'a' || r > 'z' {
		if r < '0' || r > '9' {
			return -1
		}
	}
	return r
}

func TestNoPieceOfASecretIsKept(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		own := rapid.StringMatching(`[!-~]{24,60}`).Draw(t, "secret of a resource")
		signature := Sign([]string{own}, time.Unix(1767225600, 0), []byte("body"))
		cut := rapid.IntRange(0, 2*answerWindow).Draw(t, "masked")
		made := secretPrefix + rapid.StringMatching(`[A-Za-z0-9_-]{43}`).Draw(t, "secret of ours")
		shared := sharedSecrets([]string{own, made}, signature)
		answer := []byte(secretPrefix + strings.Repeat("x", cut) + " ") // what is masked brings the window's edge into sight
		for range rapid.IntRange(1, 12).Draw(t, "pieces") {
			secret := []byte(rapid.SampledFrom(shared).Draw(t, "of"))
			from := rapid.IntRange(0, len(secret)-1).Draw(t, "from")
			piece := secret[from:rapid.IntRange(from+1, len(secret)).Draw(t, "to")]
			noise := rapid.SliceOfN(rapid.Byte(), 0, 200).Draw(t, "noise")
			separator := rapid.SliceOfN(rapid.SampledFrom([]byte{0, ' ', '\n', '-', 0xff, 0x1b, '.'}), 0, 3).Draw(t, "separator")
			every := rapid.IntRange(1, 20).Draw(t, "every")
			answer = append(answer, noise...)
			for len(piece) > every {
				answer = append(append(answer, piece[:every]...), separator...)
				piece = piece[every:]
			}
			answer = append(answer, piece...)
		}
		kept := cleanAnswer(answer[:min(len(answer), answerWindow)], shared)
		checkKept(t, kept, shared)
		if again := cleanAnswer([]byte(kept), shared); len(again) > maxKeptAnswer {
			t.Fatalf("cleaned again it grows: %q", again)
		}
	})
}

func TestASecretAtTheBoundIsMaskedWhole(t *testing.T) {
	t.Parallel()
	key := "service_" + strings.Repeat("0123456789ab", 4)
	token := "eyJhbGciOiJIUzI1NiJ9." + strings.Repeat("Ab9_", 100) + "." + strings.Repeat("c", 43)
	secret := NewSecret()
	for _, hidden := range []string{key, token, secret, "Bearer abcdefgh12345678"} {
		for pad := maxKeptAnswer - 80; pad <= maxKeptAnswer; pad++ {
			kept := cleanAnswer([]byte(strings.Repeat("+", pad)+" "+hidden), []string{secret})
			for i := len("service_01234567"); i+minFragment <= len(hidden); i++ {
				if strings.Contains(kept, hidden[i:i+minFragment]) {
					t.Fatalf("behind %d bytes: %q", pad, kept)
				}
			}
		}
	}
}

func TestATokenThatTheWindowCutsIsMasked(t *testing.T) {
	t.Parallel()
	token := "0f1e2d3c4b5a69788796a5b4c3d2e1f0" + "00112233445566778899aabbccddeeff"
	for shown := 1; shown <= len(token); shown++ {
		head := secretPrefix + strings.Repeat("x", answerWindow-shown-len(secretPrefix)-1) + " "
		kept := cleanAnswer([]byte((head + token)[:answerWindow]), nil)
		if want := mask + " " + token[:shown]; shown < minFragment && kept != want {
			t.Errorf("%d of it: got %q, want %q", shown, kept, want)
		}
		if want := mask + " " + mask; shown >= minFragment && kept != want {
			t.Errorf("%d of it: got %q, want %q", shown, kept, want)
		}
	}
}

func TestASecretInAnotherEncodingIsMasked(t *testing.T) {
	t.Parallel()
	secret := NewSecret()
	shared := sharedSecrets([]string{secret}, "")
	for name, encoded := range map[string]string{
		"hexadecimal":       hex.EncodeToString([]byte(secret)),
		"HEXADECIMAL":       strings.ToUpper(hex.EncodeToString([]byte(secret))),
		"base64":            base64.StdEncoding.EncodeToString([]byte(secret)),
		"base64url":         base64.URLEncoding.EncodeToString([]byte(secret)),
		"base64 behind a:":  base64.StdEncoding.EncodeToString([]byte("a:" + secret)),
		"base64 behind ab:": base64.StdEncoding.EncodeToString([]byte("ab:" + secret)),
		"base64 behind :":   base64.StdEncoding.EncodeToString([]byte(":" + secret)),
	} {
		t.Run(name, func(t *testing.T) {
			const most = 24 // shorter than what is taken for a token whoever's it is
			for from := 8; from+most <= len(encoded)-4; from++ {
				kept := cleanAnswer([]byte("it is "+encoded[from:from+most]+"!"), shared)
				if !strings.HasSuffix(kept, mask+"!") || len(kept) > len("it is "+mask+"!") { // by chance "s" belongs to it
					t.Fatalf("of %d: %q", from, kept)
				}
			}
		})
	}
}

func FuzzAKeptAnswerIsCleanAndBounded(f *testing.F) {
	f.Add([]byte("ok"), 0)
	f.Add([]byte("bad secret: \xff\x00"), 12)
	f.Add([]byte(strings.Repeat("é", 600)), 511)
	shared := sharedSecrets([]string{"whsec_9f8Kq2Lx7Vb1Nc5Mz3Xa6Sd4Fg0HjPoIuYtReWqZxCv"}, "")
	f.Fuzz(func(t *testing.T, answer []byte, at int) {
		at = max(0, min(at, len(answer)))
		secret := shared[len(answer)%len(shared)]
		answer = append(append(append([]byte{}, answer[:at]...), secret...), answer[at:]...)
		checkKept(t, cleanAnswer(answer[:min(len(answer), answerWindow)], shared), shared)
	})
}

func TestATryTellsHowItsAnswerBegan(t *testing.T) {
	t.Parallel()
	secret := NewSecret()
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		want   outcome
	}{
		"a success with words": {
			func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("thanks\n")) },
			outcome{status: http.StatusOK, answer: "thanks"},
		},
		"a refusal that repeats the request": {
			func(w http.ResponseWriter, r *http.Request) {
				w.WriteHeader(http.StatusBadRequest)
				_, _ = w.Write([]byte("cannot verify " + r.Header.Get(SignatureHeader)[:12] + " with " + secret))
			},
			outcome{status: http.StatusBadRequest, failure: "status", answer: "cannot verify t=1767225600 with [masked]"},
		},
		"a body that breaks off": {
			func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Length", "100")
				_, _ = w.Write([]byte("as far as it goes"))
			},
			outcome{status: http.StatusOK, failure: "connection", answer: "as far as it goes"},
		},
		"a compressed body": {
			func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Encoding", "gzip")
				_, _ = w.Write([]byte("\x1f\x8b\x08 not seen"))
			},
			outcome{status: http.StatusOK},
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewTLSServer(c.answer)
			defer r.Close()
			s := senderTo(t, r)
			s.now = func() time.Time { return time.Unix(1767225600, 0) }
			if got := s.send(t.Context(), post{url: r.URL, eventID: uuid.New(), body: []byte("{}"), secrets: []string{secret}}); got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

func BenchmarkCleanAnswer(b *testing.B) {
	secret := NewSecret()
	shared := sharedSecrets([]string{secret}, Sign([]string{secret}, time.Unix(1767225600, 0), nil))
	for name, answer := range map[string]string{"short": `{"ok":true}`, "long": strings.Repeat("an error of a proxy ", 60)} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				cleanAnswer([]byte(answer)[:min(len(answer), answerWindow)], shared)
			}
		})
	}
}
