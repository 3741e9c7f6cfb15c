package httpapi_test

import (
	"maps"
	"net/http"
	"strings"
	"testing"

	"examprep.dev/server/httpapi"
	"examprep.dev/server/testkit/check"
)

func TestWhatAPageOfAnotherOriginSendsChangesNothing(t *testing.T) {
	t.Parallel()
	p := newPremises(t, httpapi.Config{}, nil)
	ada := p.visitor(t)
	ada.signIn("ada")
	key := textOf(ada.send(http.MethodPost, keysPath, `{"name":"ci"}`, nil).document(t), "key_prefix")
	hook := textOf(ada.send(http.MethodPost, "/v1/developer/webhooks",
		`{"url":"https://receiver.example/","events":["mock_attempt.scored"]}`, nil).document(t), "id")
	before := ada.get(keysPath).body + ada.get("/v1/developer/webhooks/"+hook).body
	for name, header := range map[string]map[string]string{
		"another site":                 {"Sec-Fetch-Site": "cross-site"},
		"a sibling's page":             {"Sec-Fetch-Site": "same-site"},
		"what no browser says":         {"Sec-Fetch-Site": "same-origin, cross-site"},
		"an older browser elsewhere":   {"Sec-Fetch-Site": "", "Origin": "https://evil.example"},
		"another port":                 {"Sec-Fetch-Site": "", "Origin": "https://127.0.0.1:1"},
		"a sandboxed frame":            {"Sec-Fetch-Site": "", "Origin": "null"},
		"the host's page, without TLS": {"Sec-Fetch-Site": "", "Host": "developers.example", "Origin": "http://developers.example"},
	} {
		for _, call := range []struct{ method, path, body string }{
			{http.MethodPost, keysPath, `{"name":"forged"}`},
			{http.MethodPost, keysPath + "/" + key + "/rotate", `{"overlap_seconds":0}`},
			{http.MethodDelete, keysPath + "/" + key, ""},
			{http.MethodPatch, "/v1/developer/webhooks/" + hook, `{"url":"https://evil.example/"}`},
			{http.MethodPost, "/v1/developer/webhooks/" + hook + "/rotate-secret", ""},
			{http.MethodDelete, "/v1/developer/webhooks/" + hook, ""},
			{http.MethodDelete, sessionPath + "?everywhere=true", ""},
		} {
			got := ada.send(call.method, call.path, call.body, header)
			if got.status != http.StatusForbidden || got.code(t) != "forbidden" {
				t.Errorf("%s: %s %s: %d %s, want 403", name, call.method, call.path, got.status, got.body)
			}
		}
	}
	check.Equal(t, ada.get(keysPath).body+ada.get("/v1/developer/webhooks/"+hook).body, before, "what is stored has changed")
}

func TestItsOwnPagesAndProgramsMayChangeThings(t *testing.T) {
	t.Parallel()
	p := newPremises(t, httpapi.Config{}, nil)
	ada := p.visitor(t)
	ada.signIn("ada")
	for name, header := range map[string]map[string]string{
		"its own page":                  {"Sec-Fetch-Site": "same-origin"},
		"the person":                    {"Sec-Fetch-Site": "none"},
		"its own page, older":           {"Sec-Fetch-Site": "", "Origin": p.origin},
		"its own page, another host":    {"Sec-Fetch-Site": "", "Host": "developers.example", "Origin": "https://developers.example"},
		"its own page, on this machine": {"Sec-Fetch-Site": "", "Host": "localhost:8080", "Origin": "http://localhost:8080"},
		"a program":                     {"Sec-Fetch-Site": ""},
	} {
		ada.send(http.MethodPost, keysPath, `{"name":"ci"}`, header).expect(t, http.StatusCreated, "%s", name)
	}
}

func TestASignInNeedsNoOriginButReadsNeedASession(t *testing.T) {
	t.Parallel()
	p := newPremises(t, httpapi.Config{}, nil)
	for _, path := range []string{keysPath, sessionPath, "/v1/developer/webhooks", "/v1/developer/usage"} {
		header := map[string]string{"Cookie": sessionCookie + "=" + strings.Repeat("A", 43)}
		for range 2 {
			p.visitor(t).send(http.MethodGet, path, "", header).expect(t, http.StatusUnauthorized, "%s with %v", path, header)
			header = maps.Clone(header)
			header["Cookie"] = sessionCookie + "="
		}
	}
}
