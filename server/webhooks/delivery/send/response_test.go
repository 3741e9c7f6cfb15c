package send

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"examprep.dev/server/webhooks"
)

func TestRedactKeepsOneLineWithoutSecrets(t *testing.T) {
	t.Parallel()
	const secret = "whsec_AAAAbbbbCCCCddddEEEEffffGGGGhhhhIIIIjjjjKKK"
	const own = `correct "horse" battery staple`
	const hexadecimal = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	for name, c := range map[string]struct{ response, want string }{
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
		"the signature's form":             {"got t=1767225600,v1=" + hexadecimal + ",v1=" + hexadecimal[:16], "got t=1767225600,v1=[masked],v1=[masked]"},
		"an API key":                       {"key service_" + hexadecimal[:48] + " is revoked", "key [masked] is revoked"},
		"the public name of an API key":    {"key service_01234567 is revoked", "key service_01234567 is revoked"},
		"a word that begins like a key":    {`{"error":"service_unavailable"}`, `{"error":"service_unavailable"}`},
		"a bearer token":                   {"Authorization: bearer abc.def~ghi+/=", "Authorization: bearer [masked]"},
		"our secret between controls":      {"A" + secret[:9] + "\x00" + secret[9:], "A[masked]"},
		"a secret of a resource":           {"got " + own + "!", "got [masked]!"},
		"an API key in a query":            {"GET /x?key=abc&api_key=def&exam_key=upsc", "GET /x?key=[masked]&api_key=[masked]&exam_key=upsc"},

		"a bearer token by itself":       {"sent Bearer abc.def~ghi", "sent Bearer [masked]"},
		"basic credentials":              {"sent Basic dXNlcjpwYXNzd29yZA==", "sent Basic [masked]"},
		"a JWT":                          {"<eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJ4In0.c2ln>", "<[masked]>"},
		"a JWT that was cut":             {"<eyJhbGciOi", "<[masked]"},
		"a password":                     {`{"password":"hunter2","user":"a"}`, `{"password":"[masked]","user":"a"}`},
		"a database's address":           {"dial postgres://gradebook:hunter2@db/x", "dial postgres://[masked]@db/x"},
		"a private key":                  {"-----BEGIN EC PRIVATE KEY-----\nMHcCAQ\nAwE\n", "[masked]"},
		"a UUID":                         {"unknown 0195f3d0-0000-7000-8000-000000000000", "unknown 0195f3d0-0000-7000-8000-000000000000"},
		"a long text":                    {strings.Repeat("word ", 300), strings.Repeat("word ", 102) + "wo"},
		"a long text of long characters": {strings.Repeat("é ", 300), strings.TrimSpace(strings.Repeat("é ", 170) + "é")},
	} {
		t.Run(name, func(t *testing.T) {
			if got := redact([]byte(c.response), []string{secret, own}); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// checkKept checks a redacted response: bounded, valid, graphic and without the known secrets.
func checkKept(t rapid.TB, kept string, known []string) {
	t.Helper()
	if len(kept) > maxResponseKept || !utf8.ValidString(kept) {
		t.Fatalf("%d bytes, valid %v: %q", len(kept), utf8.ValidString(kept), kept)
	}
	if i := strings.IndexFunc(kept, func(r rune) bool { return !unicode.IsGraphic(r) }); i >= 0 {
		t.Fatalf("%q at %d of %q", kept[i:], i, kept)
	}
	for _, secret := range known {
		if strings.Contains(kept, secret) {
			t.Fatalf("%q is in %q", secret, kept)
		}
	}
}

func TestRedactMasksKnownSecretsAmongAnyBytes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		own := rapid.StringMatching(`[!-~]{24,60}`).Draw(t, "secret of a resource")
		signature := webhooks.Sign([]string{own}, time.Unix(1767225600, 0), []byte("body"))
		masked := rapid.IntRange(0, 2*maxResponseRedacted).Draw(t, "masked")
		generated := webhooks.SecretPrefix + rapid.StringMatching(`[A-Za-z0-9_-]{43}`).Draw(t, "generated secret")
		known := knownSecrets([]string{own, generated}, signature)
		response := []byte(webhooks.SecretPrefix + strings.Repeat("x", masked) + " ") // the mask is shorter, so later bytes are kept
		for range rapid.IntRange(1, 12).Draw(t, "secrets") {
			secret := []byte(rapid.SampledFrom(known).Draw(t, "secret"))
			noise := rapid.SliceOfN(rapid.Byte(), 0, 200).Draw(t, "noise")
			separator := rapid.SliceOfN(rapid.SampledFrom([]byte{0, 0x1b, 0x7f}), 0, 3).Draw(t, "control characters")
			every := rapid.IntRange(1, 60).Draw(t, "every")
			response = append(response, noise...)
			for len(secret) > every {
				response = append(append(response, secret[:every]...), separator...)
				secret = secret[every:]
			}
			response = append(response, secret...)
		}
		kept := redact(response, known)
		checkKept(t, kept, known)
		if again := redact([]byte(kept), known); len(again) > maxResponseKept {
			t.Fatalf("redacted again it grows: %q", again)
		}
	})
}

func TestRedactMasksASecretAtTheLimitWhole(t *testing.T) {
	t.Parallel()
	key := "service_" + strings.Repeat("0123456789ab", 4)
	token := "eyJhbGciOiJIUzI1NiJ9." + strings.Repeat("Ab9_", 100) + "." + strings.Repeat("c", 43)
	secret := webhooks.NewSecret()
	for _, hidden := range []string{key, token, secret, "Bearer abcdefgh12345678"} {
		for pad := maxResponseKept - 80; pad <= maxResponseKept; pad++ {
			kept := redact([]byte(strings.Repeat("+", pad)+" "+hidden), []string{secret})
			const fragment = 8
			for i := len("service_01234567"); i+fragment <= len(hidden); i++ {
				if strings.Contains(kept, hidden[i:i+fragment]) {
					t.Fatalf("behind %d bytes: %q", pad, kept)
				}
			}
		}
	}
}

func FuzzRedact(f *testing.F) {
	f.Add([]byte("ok"), 0)
	f.Add([]byte("bad secret: \xff\x00"), 12)
	f.Add([]byte(strings.Repeat("é", 600)), 511)
	known := knownSecrets([]string{"whsec_9f8Kq2Lx7Vb1Nc5Mz3Xa6Sd4Fg0HjPoIuYtReWqZxCv"}, "")
	f.Fuzz(func(t *testing.T, answer []byte, at int) {
		at = max(0, min(at, len(answer)))
		secret := known[len(answer)%len(known)]
		answer = append(append(append([]byte{}, answer[:at]...), secret...), answer[at:]...)
		checkKept(t, redact(answer, known), known)
	})
}

func TestAttemptReportsTheStartOfTheResponse(t *testing.T) {
	t.Parallel()
	secret := webhooks.NewSecret()
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		want   Result
	}{
		"a success with words": {
			func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("thanks\n")) },
			Result{Status: http.StatusOK, Response: "thanks"},
		},
		"a refusal that repeats the request": {
			func(w http.ResponseWriter, r *http.Request) {
				w.WriteHeader(http.StatusBadRequest)
				_, _ = w.Write([]byte("cannot verify " + r.Header.Get(webhooks.SignatureHeader)[:12] + " with " + secret))
			},
			Result{Status: http.StatusBadRequest, Failure: "status", Response: "cannot verify t=1767225600 with [masked]"},
		},
		"a body that breaks off": {
			func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Length", "100")
				_, _ = w.Write([]byte("as far as it goes"))
			},
			Result{Status: http.StatusOK, Failure: "connection", Response: "as far as it goes"},
		},
		"a compressed body": {
			func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Encoding", "gzip")
				_, _ = w.Write([]byte("\x1f\x8b\x08 not seen"))
			},
			Result{Status: http.StatusOK},
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewTLSServer(c.answer)
			defer r.Close()
			s := senderTo(t, r)
			s.now = func() time.Time { return time.Unix(1767225600, 0) }
			if got := s.Post(t.Context(), Request{Managed: true, URL: r.URL, EventID: uuid.New(), Body: []byte("{}"), Secrets: []string{secret}}); got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

func BenchmarkRedact(b *testing.B) {
	secret := webhooks.NewSecret()
	known := knownSecrets([]string{secret}, webhooks.Sign([]string{secret}, time.Unix(1767225600, 0), nil))
	for name, answer := range map[string]string{"short": `{"ok":true}`, "long": strings.Repeat("an error of a proxy ", 60)} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				redact([]byte(answer), known)
			}
		})
	}
}
