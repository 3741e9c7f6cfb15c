package httpapi_test

import (
	"fmt"
	"net/http"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"examprep.dev/server/httpapi"
)

// developerRoutes are the operations of a signed-in person, from the table that the server routes by.
func (c *console) developerRoutes() []httpapi.Route {
	var routes []httpapi.Route
	for _, r := range httpapi.Routes(c.Deps) {
		signIn := r.Operation == "beginSignIn" || r.Operation == "completeSignIn"
		if strings.HasPrefix(r.Path, "/v1/developer/") && !signIn {
			routes = append(routes, r)
		}
	}
	return routes
}

var parameter = regexp.MustCompile(`\{[a-z_]+\}`)

// fill puts values in the place of a path's parameters. A parameter without one fails the test: it is a new one.
func fill(t *testing.T, path string, values map[string]string) string {
	t.Helper()
	return parameter.ReplaceAllStringFunc(path, func(name string) string {
		value, known := values[strings.Trim(name, "{}")]
		if !known {
			t.Fatalf("%s: give this test a value for %s", path, name)
		}
		return value
	})
}

// bodyFor is what every operation takes that needs no more; those that know no since ignore it.
func bodyFor(method string) string {
	if method == http.MethodPost || method == http.MethodPatch {
		return sinceAnHour()
	}
	return ""
}

func sinceAnHour() string {
	return fmt.Sprintf(`{"since":%q}`, time.Now().Add(-time.Hour).Format(time.RFC3339))
}

// belongings makes one of everything that has an id, and returns the ids by the names that paths have for them.
func (b *browser) belongings() map[string]string {
	b.t.Helper()
	key := textOf(b.make("/v1/developer/keys", `{"name":"k"}`), "key_prefix")
	hook := textOf(b.make("/v1/developer/webhooks", newHook), "id")
	status, _, started := b.do(http.MethodPost, "/v1/developer/webhooks/"+hook+"/test", "")
	if status != http.StatusAccepted {
		b.t.Fatalf("test: %d %v", status, started)
	}
	return map[string]string{"key_prefix": key, "id": hook, "delivery_id": textOf(started, "delivery_id")}
}

func (b *browser) holdings(hook string) []map[string]any {
	b.t.Helper()
	var all []map[string]any
	for _, path := range []string{"/keys", "/webhooks", "/webhooks/" + hook, "/webhooks/" + hook + "/deliveries"} {
		_, _, body := b.do(http.MethodGet, "/v1/developer"+path, "")
		all = append(all, body)
	}
	return all
}

func TestWhatIsNotOnesOwnIsNotThere(t *testing.T) {
	t.Parallel()
	c := newConsole(t)
	ada, bob := c.signedIn("ada"), c.signedIn("bob")
	adas := ada.belongings()
	before := ada.holdings(adas["id"])
	unknown := map[string]string{"key_prefix": "service_00000000", "id": uuid.NewString(), "delivery_id": uuid.NewString()}
	named := 0
	for _, r := range c.developerRoutes() {
		names := parameter.FindAllString(r.Path, -1)
		if len(names) == 0 {
			continue
		}
		named++
		bobs := bob.belongings()
		ask := func(what string, values map[string]string) {
			status, _, answer := bob.do(r.Method, fill(t, r.Path, values), bodyFor(r.Method))
			if status != http.StatusNotFound || answer["error"] != "not_found" {
				t.Errorf("%s %s, %s: %d %v, want 404", r.Method, r.Path, what, status, answer)
			}
		}
		ask("another's", adas)
		ask("unknown", unknown)
		for _, name := range names {
			name = strings.Trim(name, "{}")
			for what, value := range map[string]string{
				"another's": adas[name], "unknown": unknown[name],
				"a word": "x", "a space": "%20", "U+0000": "%00", "half of a character": "%c3", "no UTF-8": "%ff%fe",
				"far too long": strings.Repeat("0", 6000), "a number": strings.Repeat("9", 40),
				"a slash after it": bobs[name] + "%2F", "a broken escape": "%zz", "half an escape": "%4",
				"escaped twice": strings.ReplaceAll(escaped(bobs[name]), "%", "%25"), "in braces": "%7B" + bobs[name] + "%7D", "a URN": "urn:uuid:" + bobs[name],
				"run together": strings.NewReplacer("-", "", "_", "").Replace(bobs[name]), "a space after it": bobs[name] + "%20", "the nil UUID": uuid.Nil.String(),
			} {
				values := map[string]string{"key_prefix": bobs["key_prefix"], "id": bobs["id"], "delivery_id": bobs["delivery_id"]}
				values[name] = value
				ask(what+" for "+name, values)
			}
		}
		if status, _, answer := bob.do(r.Method, fill(t, r.Path, bobs), bodyFor(r.Method)); status < 200 || status > 299 {
			t.Errorf("%s %s, one's own: %d %v", r.Method, r.Path, status, answer)
		}
	}
	if named < 9 {
		t.Errorf("only %d operations have an id", named)
	}
	if after := ada.holdings(adas["id"]); !reflect.DeepEqual(after, before) {
		t.Errorf("ada had %v, and has %v", before, after)
	}
}

// escaped writes the first character of a value by its code.
func escaped(value string) string {
	const digits = "0123456789ABCDEF"
	return "%" + string(digits[value[0]>>4]) + string(digits[value[0]&15]) + value[1:]
}

func TestAnIDIsTheSameHoweverItIsEscaped(t *testing.T) {
	t.Parallel()
	c, ada := newConsoleOfAda(t)
	for _, r := range c.developerRoutes() {
		if !parameter.MatchString(r.Path) {
			continue
		}
		values := ada.belongings()
		for name, value := range values {
			values[name] = escaped(value)
			if name != "key_prefix" {
				values[name] = escaped(strings.ToUpper(value))
			}
		}
		if status, _, answer := ada.do(r.Method, fill(t, r.Path, values), bodyFor(r.Method)); status < 200 || status > 299 {
			t.Errorf("%s %s: %d %v", r.Method, r.Path, status, answer)
		}
	}
}

func TestEveryChangeFromAnotherOriginIsRefused(t *testing.T) {
	t.Parallel()
	c, ada := newConsoleOfAda(t)
	adas := ada.belongings()
	before := ada.holdings(adas["id"])
	changes := 0
	for _, r := range c.developerRoutes() {
		path := fill(t, r.Path, adas)
		if status, header, answer := c.open().do(r.Method, path, bodyFor(r.Method)); status != http.StatusUnauthorized ||
			answer["error"] != "unauthorized" || !strings.HasPrefix(header.Get("WWW-Authenticate"), "Cookie ") {
			t.Errorf("%s %s without a session: %d %v, want 401", r.Method, r.Path, status, answer)
		}
		if r.Method == http.MethodGet {
			c.open().expect(http.StatusUnauthorized, http.MethodHead, path, "", "HEAD %s without a session", r.Path)
			ada.expect(http.StatusOK, http.MethodHead, path, "", "HEAD %s", r.Path)
			continue
		}
		changes++
		for name, header := range map[string]http.Header{
			"another site":                     {"Sec-Fetch-Site": {"cross-site"}},
			"a sibling's page":                 {"Sec-Fetch-Site": {"same-site"}},
			"a site that is no word":           {"Sec-Fetch-Site": {"SAME-ORIGIN"}},
			"another site, from its own":       {"Sec-Fetch-Site": {"cross-site"}, "Origin": {"http://" + c.Address}},
			"an old browser elsewhere":         {"Origin": {"https://evil.example"}},
			"another port":                     {"Origin": {"http://127.0.0.1:1"}},
			"a name that ends alike":           {"Origin": {"http://evil" + c.Address}},
			"a sandboxed frame":                {"Origin": {"null"}},
			"no origin":                        {"Origin": {"://"}},
			"its own, in the place of a user":  {"Origin": {"http://" + c.Address + "@evil.example"}},
			"its own, behind the name of none": {"Origin": {c.Address}},
		} {
			stranger := newBrowser(t, ada.origin, header, ada.Jar, nil)
			if status, _, answer := stranger.do(r.Method, path, bodyFor(r.Method)); status != http.StatusForbidden || answer["error"] != "forbidden" {
				t.Errorf("%s %s from %s: %d %v, want 403", r.Method, r.Path, name, status, answer)
			}
		}
	}
	if changes < 9 {
		t.Errorf("only %d operations change anything", changes)
	}
	if after := ada.holdings(adas["id"]); !reflect.DeepEqual(after, before) {
		t.Errorf("ada had %v, and has %v", before, after)
	}
}

func TestSigningOutTakesNoGuesses(t *testing.T) {
	t.Parallel()
	_, ada := newConsoleOfAda(t)
	for _, query := range []string{"everywhere=", "everywhere=yes", "everywhere=1", "everywhere=true&everywhere=true", "everywhere=%ff"} {
		if status, _, refused := ada.do(http.MethodDelete, "/v1/developer/session?"+query, ""); status != http.StatusBadRequest || !names(refused, "everywhere") {
			t.Errorf("%s: %d %v, want everywhere named", query, status, refused)
		}
	}
	ada.expect(http.StatusNoContent, http.MethodDelete, "/v1/developer/session?everywhere=false", "", "sign-out")
	ada.expect(http.StatusUnauthorized, http.MethodGet, "/v1/developer/session", "", "after it")
}
