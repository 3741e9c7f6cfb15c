package developer

import (
	"net/url"
	"path"
	"strings"
	"testing"

	"examprep.dev/server/testkit/check"
)

// pagesOfTheConsole are addresses that a sign-in leads to.
func pagesOfTheConsole() []string {
	return []string{
		"/console/", "/console/keys", "/console/webhooks/019aa8f6-5b1e-7c43-9d2b-6f0f8f1c2a31/deliveries",
		"/console/usage?from=2026-01-01&to=2026-01-31", "/console/webhooks?since=2026-01-01T00%3A00%3A00Z",
		"/console/activity?action=key.create", "/console/a.b/..c/...", "/console/?next=..", "/console/%6beys", "/console/a+b~c_d-e=f&g:h,i",
		"/console/?q=%2e%2e%2f", "/console/" + strings.Repeat("k", 503),
	}
}

// hostileTargets are addresses that a sign-in must not lead to.
func hostileTargets() map[string]string {
	return map[string]string{
		"empty":                        "",
		"another host":                 "https://evil.example/",
		"another host, no scheme":      "//evil.example/console/",
		"another host, three slashes":  "///evil.example/console/",
		"backslash":                    `/\evil.example/console/`,
		"backslashes":                  `\\evil.example/console/`,
		"backslash in it":              `/console/\..\..\v1`,
		"encoded backslash":            "/console/%5c..%5cv1",
		"script":                       "javascript:alert(1)",
		"data":                         "data:text/html,hi",
		"without its slash":            "/console",
		"prefix only":                  "/consoles/",
		"another path":                 "/docs",
		"the API":                      "/v1/developer/sessions",
		"relative":                     "console/",
		"upper case":                   "/CONSOLE/",
		"a space before it":            " /console/",
		"a tab before it":              "\t/console/",
		"two slashes":                  "/console//evil.example",
		"two slashes at once":          "//console/",
		"two slashes in the query":     "/console/?next=//evil.example",
		"encoded slash twice":          "/console/%2f%2fevil.example",
		"encoded slash after a slash":  "/console/%2Fevil.example",
		"dots":                         "/console/../docs",
		"dots at the end":              "/console/..",
		"a dot":                        "/console/./keys",
		"a dot at the end":             "/console/.",
		"encoded dots":                 "/console/%2e%2e/docs",
		"encoded dots, upper case":     "/console/%2E%2E/docs",
		"half encoded dots":            "/console/.%2e/docs",
		"half encoded dots, the other": "/console/%2e./docs",
		"encoded dot":                  "/console/%2e/",
		"dots, encoded slash":          "/console/..%2fdocs",
		"all encoded":                  "/console/%2e%2e%2fdocs",
		"encoded twice":                "/console/%252e%252e/docs",
		"encoded three times":          "/console/%25252e%25252e%25252fdocs",
		"dots in the middle":           "/console/keys/../../docs",
		"encoded prefix":               "/%63onsole/keys",
		"line break":                   "/console/\r\nSet-Cookie: a=b",
		"encoded line break":           "/console/%0d%0aSet-Cookie:a=b",
		"NUL":                          "/console/\x00",
		"encoded NUL":                  "/console/%00",
		"fragment":                     "/console/#keys",
		"encoded fragment":             "/console/%23keys",
		"encoded question mark":        "/console/%3fkeys",
		"user":                         "/console/@evil.example",
		"quote":                        `/console/"><script>`,
		"semicolon":                    "/console/;a=b",
		"broken escape":                "/console/%zz",
		"half an escape":               "/console/%4",
		"not ASCII":                    "/console/é",
		"not ASCII, encoded":           "/console/%c3%a9",
		"overlong dots":                "/console/%c0%ae%c0%ae/docs",
		"not UTF-8":                    "/console/\xff",
		"full-width slash":             "/console/／evil.example",
		"too long":                     "/console/" + strings.Repeat("k", 504),
	}
}

func TestReturnToIsAPageOfTheConsole(t *testing.T) {
	t.Parallel()
	for _, target := range pagesOfTheConsole() {
		check.Equal(t, returnTo(target), target, "page")
	}
	for name, target := range hostileTargets() {
		check.Equal(t, returnTo(target), "/console/", "%s: %q", name, target)
	}
}

// FuzzReturnTo: wherever a browser takes the address to be, it is below /console/ of this origin. The result is a page itself.
func FuzzReturnTo(f *testing.F) {
	for _, target := range pagesOfTheConsole() {
		f.Add(target)
	}
	for _, target := range hostileTargets() {
		f.Add(target)
	}
	f.Fuzz(func(t *testing.T, target string) {
		got := returnTo(target)
		if got != target && got != "/console/" {
			t.Fatalf("%q became %q", target, got)
		}
		check.Equal(t, returnTo(got), got, "the result of the result")
		base := &url.URL{Scheme: "https", Host: "api.example"}
		at, err := base.Parse(got)
		if err != nil {
			t.Fatalf("%q: %v", got, err)
		}
		below := func(path string) bool { return strings.HasPrefix(path, "/console/") || path == "/console" }
		if at.Host != base.Host || at.User != nil || at.Fragment != "" || !below(path.Clean(at.Path)) || len(got) > maxReturnTo {
			t.Errorf("%q leads to %s", got, at)
		}
		for decoded := at.Path; ; {
			if !below(path.Clean(decoded)) || strings.ContainsAny(decoded, "\\\r\n\x00") || strings.Contains(decoded, "//") {
				t.Fatalf("%q decodes to %q", got, decoded)
			}
			next, err := url.PathUnescape(decoded)
			if err != nil || next == decoded {
				return
			}
			decoded = next
		}
	})
}
