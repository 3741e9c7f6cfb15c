package httpapi_test

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/oauth2-proxy/mockoidc"

	"examprep.dev/server/httpapi"
	"examprep.dev/server/keys"
)

// browser is a person at the developer endpoints. Its jar sends Secure cookies over the test's plain HTTP, as browsers
// do on loopback.
type browser struct {
	t       *testing.T
	address string
	cookies map[string]string
	// header is sent along with every request.
	header http.Header
}

func (b *browser) do(method, path, body string) (int, http.Header, map[string]any) {
	b.t.Helper()
	target := path
	if strings.HasPrefix(path, "/") {
		target = "http://" + b.address + path
	}
	request, err := http.NewRequestWithContext(b.t.Context(), method, target, strings.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	maps.Copy(request.Header, b.header)
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	for name, value := range b.cookies {
		request.AddCookie(&http.Cookie{Name: name, Value: value})
	}
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	response, err := client.Do(request)
	if err != nil {
		b.t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	for _, cookie := range response.Cookies() {
		if !cookie.Secure || !cookie.HttpOnly || cookie.Path != "/" || cookie.Domain != "" || cookie.SameSite != http.SameSiteLaxMode {
			b.t.Errorf("cookie %s may leak: %s", cookie.Name, cookie.Raw)
		}
		if cookie.Value == "" || cookie.MaxAge < 0 {
			delete(b.cookies, cookie.Name)
		} else {
			b.cookies[cookie.Name] = cookie.Value
		}
	}
	raw, err := io.ReadAll(response.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	var decoded map[string]any
	if len(raw) > 0 && strings.HasPrefix(response.Header.Get("Content-Type"), "application/json") {
		if err := json.Unmarshal(raw, &decoded); err != nil {
			b.t.Fatalf("%s %s: %v in %s", method, path, err, raw)
		}
	}
	if strings.HasPrefix(path, "/") && (response.Header.Get("X-Request-Id") == "" || response.Header.Get("RateLimit-Limit") == "") {
		b.t.Errorf("%s %s: request id or rate headers are missing", method, path)
	}
	return response.StatusCode, response.Header, decoded
}

// signIn goes to the provider and back as subject.
func (b *browser) signIn(provider *mockoidc.MockOIDC, subject string) {
	b.t.Helper()
	provider.QueueUser(&mockoidc.MockUser{Subject: subject, Email: subject + "@example.org"})
	_, header, _ := b.do(http.MethodGet, "/", "")
	status, header, _ := b.do(http.MethodGet, header.Get("Location"), "")
	if status != http.StatusSeeOther {
		b.t.Fatalf("sign-in: status %d", status)
	}
	_, header, _ = b.do(http.MethodGet, header.Get("Location"), "")
	back, err := url.Parse(header.Get("Location"))
	if err != nil {
		b.t.Fatal(err)
	}
	status, header, body := b.do(http.MethodGet, back.RequestURI(), "")
	if status != http.StatusSeeOther || header.Get("Location") != "/v1/developer/session" {
		b.t.Fatalf("callback: status %d, %v", status, body)
	}
}

// newDeveloperAPI is the API with a real provider beside it.
func newDeveloperAPI(t *testing.T) (*mockoidc.MockOIDC, func() *browser) {
	t.Helper()
	provider := newProvider(t)
	a := newAPI(t, options{developer: func(a *api) *httpapi.Developer { return newDeveloper(a, provider) }})
	return provider, func() *browser {
		return &browser{t: t, address: a.address, cookies: map[string]string{}, header: http.Header{}}
	}
}

func TestADeveloperManagesKeys(t *testing.T) {
	provider, open := newDeveloperAPI(t)
	ada := open()
	ada.signIn(provider, "ada")
	if status, _, body := ada.do(http.MethodGet, "/v1/developer/session", ""); status != http.StatusOK || body["email"] != "ada@example.org" {
		t.Fatalf("session: %d %v", status, body)
	}
	status, _, issued := ada.do(http.MethodPost, "/v1/developer/keys", `{"name":"ci"}`)
	key, _ := issued["key"].(string)
	if _, valid := keys.Parse([]byte(key)); status != http.StatusCreated || !valid || issued["environment"] != "sandbox" || issued["tier"] != "default" {
		t.Fatalf("create: %d %v", status, issued)
	}
	withKey := func(key string) int {
		caller := open()
		caller.header.Set("Authorization", "Bearer "+key)
		status, _, _ := caller.do(http.MethodGet, "/v1/exam-prep/list", "")
		return status
	}
	if status := withKey(key); status != http.StatusOK {
		t.Errorf("the new key: %d", status)
	}
	prefix, _ := issued["key_prefix"].(string)
	status, _, listed := ada.do(http.MethodGet, "/v1/developer/keys", "")
	if text, _ := json.Marshal(listed); status != http.StatusOK || !strings.Contains(string(text), prefix) || strings.Contains(string(text), key) {
		t.Errorf("list: %d %s", status, text)
	}
	bob := open()
	bob.signIn(provider, "bob")
	if status, _, _ := bob.do(http.MethodDelete, "/v1/developer/keys/"+prefix, ""); status != http.StatusNotFound {
		t.Errorf("another's key: %d, want 404", status)
	}
	status, _, rotated := ada.do(http.MethodPost, "/v1/developer/keys/"+prefix+"/rotate", `{"overlap_seconds":60}`)
	successor, _ := rotated["key"].(string)
	if status != http.StatusCreated || withKey(key) != http.StatusOK || withKey(successor) != http.StatusOK {
		t.Errorf("rotate: %d, old %d, new %d", status, withKey(key), withKey(successor))
	}
	if status, _, _ := ada.do(http.MethodDelete, "/v1/developer/keys/"+prefix, ""); status != http.StatusNoContent {
		t.Errorf("revoke: %d", status)
	}
	if status := withKey(key); status != http.StatusUnauthorized {
		t.Errorf("the revoked key: %d, want 401", status)
	}
}

func TestARotationIsNotRepeatedAndNeedsNoBody(t *testing.T) {
	provider, open := newDeveloperAPI(t)
	ada := open()
	ada.signIn(provider, "ada")
	rotate := func(prefix any, body string) (int, map[string]any) {
		text, _ := prefix.(string)
		status, _, answer := ada.do(http.MethodPost, "/v1/developer/keys/"+url.PathEscape(text)+"/rotate", body)
		return status, answer
	}
	_, _, first := ada.do(http.MethodPost, "/v1/developer/keys", `{"name":"ci"}`)
	status, second := rotate(first["key_prefix"], `{"overlap_seconds":60}`)
	if _, uncertain := second["old_key_revoked"]; status != http.StatusCreated || second["expires_at"] != nil || uncertain {
		t.Errorf("rotate: %d %v", status, second)
	}
	if status, answer := rotate(first["key_prefix"], `{"overlap_seconds":60}`); status != http.StatusConflict {
		t.Errorf("again: %d %v, want 409", status, answer)
	}
	if status, answer := rotate(second["key_prefix"], `{}`); status != http.StatusBadRequest {
		t.Errorf("a body without the field: %d %v, want 400", status, answer)
	}
	if status, answer := rotate(second["key_prefix"], ""); status != http.StatusCreated {
		t.Errorf("without a body: %d %v, want 201", status, answer)
	}
	for _, prefix := range []string{"\xff\xfe", "service_", "service_0000000G", "SERVICE_00000000"} {
		if status, answer := rotate(prefix, ""); status != http.StatusNotFound {
			t.Errorf("%q: %d %v, want 404", prefix, status, answer)
		}
	}
}

func TestADeveloperManagesWebhooks(t *testing.T) {
	provider, open := newDeveloperAPI(t)
	ada, bob := open(), open()
	ada.signIn(provider, "ada")
	bob.signIn(provider, "bob")
	status, _, made := ada.do(http.MethodPost, "/v1/developer/webhooks",
		`{"url":"https://receiver.example.com/hook","events":["mock_attempt.scored"],"description":"gradebook"}`)
	secret, _ := made["secret"].(string)
	id, _ := made["id"].(string)
	if status != http.StatusCreated || !strings.HasPrefix(secret, "whsec_") || made["status"] != "enabled" {
		t.Fatalf("create: %d %v", status, made)
	}
	path := "/v1/developer/webhooks/" + id
	if status, _, shown := ada.do(http.MethodGet, path, ""); status != http.StatusOK || shown["secret"] != nil {
		t.Errorf("get: %d %v", status, shown)
	}
	if status, _, _ := bob.do(http.MethodGet, path, ""); status != http.StatusNotFound {
		t.Errorf("another's webhook: %d, want 404", status)
	}
	if status, _, rotated := ada.do(http.MethodPost, path+"/rotate-secret", ""); status != http.StatusOK || rotated["secret"] == secret {
		t.Errorf("rotate: %d", status)
	}
	if status, _, _ := ada.do(http.MethodDelete, path, ""); status != http.StatusNoContent {
		t.Errorf("delete: %d", status)
	}
	if status, _, _ := ada.do(http.MethodGet, path, ""); status != http.StatusNotFound {
		t.Errorf("after deletion: %d", status)
	}
	for body, field := range map[string]string{
		`{"url":"http://x.example","events":["mock_attempt.scored"]}`:         "url",
		`{"url":"https://169.254.169.254/","events":["mock_attempt.scored"]}`: "url",
		`{"url":"https://x.example","events":["nonsense"]}`:                   "events[0]",
		`{"url":"https://x.example","events":[]}`:                             "events",
		`{"url":"https://x.example","events":[7]}`:                            "events",
		`{"events":["mock_attempt.scored"]}`:                                  "url",
	} {
		status, _, refused := ada.do(http.MethodPost, "/v1/developer/webhooks", body)
		if text, _ := json.Marshal(refused["errors"]); status != http.StatusBadRequest || !strings.Contains(string(text), `"`+field+`"`) {
			t.Errorf("%s: %d %v, want %s named", body, status, refused, field)
		}
	}
}

func TestWhoIsNotSignedInOrComesFromElsewhereIsRefused(t *testing.T) {
	provider, open := newDeveloperAPI(t)
	if status, header, body := open().do(http.MethodGet, "/v1/developer/keys", ""); status != http.StatusUnauthorized ||
		body["error"] != "unauthorized" || header.Get("WWW-Authenticate") != "" {
		t.Errorf("nobody: %d %v", status, body)
	}
	ada := open()
	ada.signIn(provider, "ada")
	for name, header := range map[string]http.Header{
		"another site":             {"Sec-Fetch-Site": {"cross-site"}},
		"a sibling's page":         {"Sec-Fetch-Site": {"same-site"}},
		"an old browser elsewhere": {"Origin": {"https://evil.example"}},
		"a sandboxed frame":        {"Origin": {"null"}},
	} {
		ada.header = header
		if status, _, body := ada.do(http.MethodPost, "/v1/developer/keys", `{"name":"x"}`); status != http.StatusForbidden || body["error"] != "forbidden" {
			t.Errorf("%s: %d %v, want 403", name, status, body)
		}
	}
	ada.header = http.Header{"Origin": {"http://" + ada.address}}
	if status, _, _ := ada.do(http.MethodPost, "/v1/developer/keys", `{"name":"x"}`); status != http.StatusCreated {
		t.Errorf("its own origin: %d", status)
	}
	ada.header = http.Header{}
	stolen := &browser{t: t, address: ada.address, cookies: map[string]string{"__Host-examprep_session": ada.cookies["__Host-examprep_session"]}, header: http.Header{}}
	if status, _, _ := ada.do(http.MethodDelete, "/v1/developer/session?everywhere=true", ""); status != http.StatusNoContent {
		t.Errorf("sign-out everywhere: %d", status)
	}
	if status, _, _ := stolen.do(http.MethodGet, "/v1/developer/session", ""); status != http.StatusUnauthorized {
		t.Errorf("after sign-out everywhere: %d, want 401", status)
	}
	status, _, _ := open().do(http.MethodGet, "/v1/developer/callback?state=forged&code=forged", "")
	if status != http.StatusUnauthorized {
		t.Errorf("forged callback: %d, want 401", status)
	}
}
