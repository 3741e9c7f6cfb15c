package httpapi_test

import (
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/valyala/fasthttp"

	"examprep.dev/api/openapi"
	"examprep.dev/server/gate"
	"examprep.dev/server/keys"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/apitest"
	"examprep.dev/server/testkit/check"
)

func (a *api) visit(method, path string, header map[string]string) response {
	a.t.Helper()
	all := map[string]string{"Accept-Encoding": "identity"}
	maps.Copy(all, header)
	got, content := testkit.Call(a.t, http.DefaultTransport.RoundTrip, method, "http://"+a.Address+path, "", all)
	answer := response{got.StatusCode, got.Header, content, got.Close}
	checkEnvelope(a.t, method, answer)
	return answer
}

func referenceParts(t *testing.T, a *api) map[string]string {
	t.Helper()
	parts := map[string]string{"/v1/openapi.json": "application/json", "/docs": "text/html; charset=utf-8"}
	page := a.visit("GET", "/docs", nil).body
	for _, found := range regexp.MustCompile(`(?:src|href)="([^"]*)"`).FindAllStringSubmatch(page, -1) {
		address, err := url.Parse(found[1])
		if err != nil || address.IsAbs() || address.Host != "" || strings.HasPrefix(address.Path, "/") {
			t.Errorf("the page refers to %q, which is not below where it stands", found[1])
			continue
		}
		mediaType := map[string]string{
			"js": "text/javascript; charset=utf-8", "css": "text/css; charset=utf-8", "png": "image/png", "json": "application/json",
		}[address.Path[strings.LastIndexByte(address.Path, '.')+1:]]
		parts["/"+address.Path] = mediaType
	}
	if len(parts) != 6 {
		t.Fatalf("the page is made of %d parts, want 6: %v", len(parts), parts)
	}
	return parts
}

func TestTheReferencePageLoadsNothingFromOutside(t *testing.T) {
	t.Parallel()
	a := newAPI(t, apitest.Options{})
	page := a.visit("GET", "/docs", nil)
	policy := page.header.Get("Content-Security-Policy")
	for _, directive := range []string{
		"default-src 'none'", "script-src 'self'", "style-src 'self'", "img-src 'self' data:", "connect-src 'self'", "base-uri 'none'",
		"form-action 'none'", "frame-ancestors 'none'",
	} {
		if !strings.Contains(policy+";", directive+";") {
			t.Errorf("the policy %q lacks %s", policy, directive)
		}
	}
	check.Equal(t, regexp.MustCompile(`<script>|<style|\son[a-z]+=|\sstyle=`).FindString(page.body), "", "code in the page that its policy would keep from working")
	for path, mediaType := range referenceParts(t, a) {
		got := a.visit("GET", path, nil)
		if got.status != http.StatusOK || got.header.Get("Content-Type") != mediaType || got.header.Get("X-Content-Type-Options") != "nosniff" ||
			got.header.Get("Referrer-Policy") != "no-referrer" || got.body == "" {
			t.Errorf("%s: %d %v, %d bytes; want %s", path, got.status, got.header, len(got.body), mediaType)
		}
	}
	want, err := openapi.JSON()
	check.NoError(t, err)
	if got := a.visit("GET", "/v1/openapi.json", nil); got.body != string(want) {
		t.Error("what is served is not the contract")
	}
	if start := a.visit("GET", "/docs/start.js", nil).body; !strings.Contains(start, "url: 'v1/openapi.json'") || !strings.Contains(start, "validatorUrl: null") {
		t.Errorf("the viewer is not told to show our document and to tell nobody: %s", start)
	}
}

func TestTheReferenceIsCachedAndCompressed(t *testing.T) {
	t.Parallel()
	a := newAPI(t, apitest.Options{})
	for path := range referenceParts(t, a) {
		plain := a.visit("GET", path, nil)
		if plain.header.Get("Cache-Control") != "public, no-cache" || !strings.HasPrefix(plain.header.Get("Etag"), `"`) {
			t.Errorf("%s: %v", path, plain.header)
		}
		if head := a.visit("HEAD", path, nil); head.status != http.StatusOK || head.body != "" ||
			head.header.Get("Etag") != plain.header.Get("Etag") || head.header.Get("Content-Length") != plain.header.Get("Content-Length") {
			t.Errorf("HEAD %s: %d %v %q", path, head.status, head.header, head.body)
		}
		for coding, unpack := range map[string]func(dst, packed []byte) ([]byte, error){
			"identity": nil, "gzip": fasthttp.AppendGunzipBytes, "br": fasthttp.AppendUnbrotliBytes, "zstd": fasthttp.AppendUnzstdBytes,
		} {
			got := a.visit("GET", path, map[string]string{"Accept-Encoding": coding})
			compressed := got.header.Get("Content-Encoding") == coding
			if large := len(plain.body) >= 1400; compressed != (large && coding != "identity") {
				t.Errorf("%s of %d bytes by %s: Content-Encoding %q", path, len(plain.body), coding, got.header.Get("Content-Encoding"))
			}
			content := []byte(got.body)
			if compressed {
				var err error
				if content, err = unpack(nil, content); err != nil {
					t.Errorf("%s by %s: %v", path, coding, err)
				}
			}
			if string(content) != plain.body {
				t.Errorf("%s by %s is something else", path, coding)
			}
			condition := map[string]string{"Accept-Encoding": coding, "If-None-Match": got.header.Get("Etag")}
			if again := a.visit("GET", path, condition); again.status != http.StatusNotModified || again.body != "" {
				t.Errorf("%s by %s, known already: %d", path, coding, again.status)
			}
		}
	}
}

func TestTheReferenceIsOpenAndLimitedByAddress(t *testing.T) {
	t.Parallel()
	a := newAPI(t, apitest.Options{Gate: gate.Config{Anonymous: keys.Default()}})
	parts := referenceParts(t, a) // one more load of the page
	var last response
	for path := range parts {
		if last = a.visit("GET", path, nil); last.status != http.StatusOK {
			t.Fatalf("%s within the allowance of an address: %d %s", path, last.status, last.body)
		}
	}
	check.Equal(t, last.header.Get("RateLimit-Limit"), "120", "limit, which is an address's")
	narrow := newAPI(t, apitest.Options{Gate: gate.Config{Anonymous: keys.Tier{Name: "narrow", Requests: 1, Period: 3600e9, Burst: 1}}})
	narrow.visit("GET", "/docs", nil).expect(t, http.StatusOK, "the one request of an hour")
	for _, path := range []string{"/docs", "/v1/openapi.json", "/docs/start.js"} {
		got := narrow.visit("GET", path, nil)
		if got.status != http.StatusTooManyRequests || got.header.Get("Content-Security-Policy") != "" || got.header.Get("Content-Type") != "application/json" {
			t.Errorf("%s beyond the allowance: %d %v", path, got.status, got.header)
		}
	}
}

func TestTheReferenceHasOneAddress(t *testing.T) {
	t.Parallel()
	a := newAPI(t, apitest.Options{})
	for _, path := range []string{"/docs/", "/docs/index.html", "/docs/none", "/docs/..%2f..%2fgo.mod", "/docs/%2e%2e/docs.go", "/docs/docs/start.js", "/openapi.json"} {
		if got := a.visit("GET", path, nil); got.status != http.StatusNotFound || got.code(t) != "not_found" {
			t.Errorf("%s: %d %s", path, got.status, got.body)
		}
	}
	for _, path := range []string{"/docs", "/v1/openapi.json"} {
		if got := a.visit("POST", path, nil); got.status != http.StatusMethodNotAllowed || got.header.Get("Allow") == "" {
			t.Errorf("POST %s: %d %v", path, got.status, got.header)
		}
	}
}
