package signin_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"examprep.dev/hack/dev/signin"
	"examprep.dev/server/testkit/check"
)

const redirect = "http://127.0.0.1:1/callback"

func TestASignInThatAnIndependentClientAccepts(t *testing.T) {
	client, verifier := newClient(t)
	secret := oauth2.GenerateVerifier()
	code, state := approve(t, client.AuthCodeURL("the-state", oidc.Nonce("the-nonce"), oauth2.S256ChallengeOption(secret)), "dev")
	check.Equal(t, state, "the-state", "state")
	token, err := client.Exchange(t.Context(), code, oauth2.VerifierOption(secret))
	check.NoError(t, err)
	raw, _ := token.Extra("id_token").(string)
	id, err := verifier.Verify(t.Context(), raw)
	check.NoError(t, err)
	var claims struct {
		Email    string `json:"email"`
		Verified bool   `json:"email_verified"`
	}
	check.NoError(t, id.Claims(&claims))
	if id.Subject != "dev" || id.Nonce != "the-nonce" || claims.Email != "dev@example.com" || !claims.Verified {
		t.Errorf("subject %q, nonce %q, claims %v", id.Subject, id.Nonce, claims)
	}
	if _, err := client.Exchange(t.Context(), code, oauth2.VerifierOption(secret)); err == nil {
		t.Error("a code was taken twice")
	}
}

func TestACodeIsWorthNothingWithoutItsVerifierOrTheClientsSecret(t *testing.T) {
	client, _ := newClient(t)
	for name, spoil := range map[string]func(*oauth2.Config) string{
		"another verifier": func(*oauth2.Config) string { return oauth2.GenerateVerifier() },
		"another secret":   func(c *oauth2.Config) string { c.ClientSecret = "guessed"; return "" },
	} {
		t.Run(name, func(t *testing.T) {
			spoiled := *client
			verifier := oauth2.GenerateVerifier()
			code, _ := approve(t, client.AuthCodeURL("s", oauth2.S256ChallengeOption(verifier)), "dev")
			if other := spoil(&spoiled); other != "" {
				verifier = other
			}
			if _, err := spoiled.Exchange(t.Context(), code, oauth2.VerifierOption(verifier)); err == nil {
				t.Error("taken")
			}
		})
	}
}

func TestRequestsOfOthersAreRefusedWithoutARedirect(t *testing.T) {
	client, _ := newClient(t)
	good := client.AuthCodeURL("s", oauth2.S256ChallengeOption(oauth2.GenerateVerifier()))
	for name, change := range map[string][2]string{
		"another redirect": {"redirect_uri", "http://127.0.0.1:2/callback"},
		"another client":   {"client_id", "stranger"},
		"no PKCE":          {"code_challenge", ""},
		"plain PKCE":       {"code_challenge_method", "plain"},
		"no openid":        {"scope", "email"},
	} {
		t.Run(name, func(t *testing.T) {
			u, err := url.Parse(good)
			check.NoError(t, err)
			query := u.Query()
			query.Set(change[0], change[1])
			u.RawQuery = query.Encode()
			check.Equal(t, post(t, u.String(), "dev").StatusCode, http.StatusBadRequest, "status of a wrong request")
		})
	}
}

func newClient(t *testing.T) (*oauth2.Config, *oidc.IDTokenVerifier) {
	t.Helper()
	server := httptest.NewUnstartedServer(nil)
	issuer := "http://" + server.Listener.Addr().String() + signin.Path
	provider, err := signin.New(signin.Config{
		Issuer: issuer, ClientID: "examprep", ClientSecret: "a secret&more", RedirectURL: redirect,
		Users: []signin.User{{Subject: "dev", Email: "dev@example.com", Name: "Dev", Note: "owns <everything>"}},
	})
	check.NoError(t, err)
	server.Config.Handler = provider.Handler()
	server.Start()
	t.Cleanup(server.Close)
	discovered, err := oidc.NewProvider(t.Context(), issuer)
	check.NoError(t, err)
	return &oauth2.Config{
		ClientID: "examprep", ClientSecret: "a secret&more", RedirectURL: redirect,
		Endpoint: discovered.Endpoint(), Scopes: []string{"openid", "email"},
	}, discovered.Verifier(&oidc.Config{ClientID: "examprep"})
}

func approve(t *testing.T, address, subject string) (code, state string) {
	t.Helper()
	response := post(t, address, subject)
	back, err := response.Location()
	check.NoErrorf(t, err, "%s", response.Status)
	return back.Query().Get("code"), back.Query().Get("state")
}

func post(t *testing.T, address, subject string) *http.Response {
	t.Helper()
	request, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), http.MethodPost, address, strings.NewReader(url.Values{"subject": {subject}}.Encode()))
	check.NoError(t, err)
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	response, err := client.Do(request)
	check.NoError(t, err)
	t.Cleanup(func() { _ = response.Body.Close() })
	return response
}

func TestThePageHasAButtonForEachUser(t *testing.T) {
	client, _ := newClient(t)
	address := client.AuthCodeURL("s", oauth2.S256ChallengeOption(oauth2.GenerateVerifier()))
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, http.NoBody)
	check.NoError(t, err)
	response, err := http.DefaultClient.Do(request)
	check.NoError(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	check.NoError(t, err)
	check.Equal(t, strings.Count(string(body), "<button>"), 1, "buttons in %s", body)
	check.Contains(t, string(body), `<button>Dev &lt;dev@example.com&gt;</button> owns &lt;everything&gt;</form>`, "page")
}

func TestABrowserReportsARefusedSignIn(t *testing.T) {
	for name, c := range map[string]struct {
		callback http.HandlerFunc
		want     string
	}{
		"no cookie": {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/", http.StatusSeeOther) }, "set no session cookie"},
		"an error":  {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no account", http.StatusForbidden) }, "status 403: no account"},
	} {
		t.Run(name, func(t *testing.T) {
			mux := http.NewServeMux()
			mux.HandleFunc("GET /v1/developer/sign-in", func(w http.ResponseWriter, r *http.Request) {
				http.SetCookie(w, &http.Cookie{Name: "state", Value: "s", Secure: true, HttpOnly: true, SameSite: http.SameSiteLaxMode})
				http.Redirect(w, r, "/provider", http.StatusSeeOther)
			})
			mux.HandleFunc("POST /provider", func(w http.ResponseWriter, r *http.Request) {
				if r.PostFormValue("subject") != "dev" || r.Header.Get("Cookie") != "" {
					t.Errorf("subject %q, cookies %q", r.PostFormValue("subject"), r.Header.Get("Cookie"))
				}
				http.Redirect(w, r, "/callback", http.StatusSeeOther)
			})
			mux.HandleFunc("GET /callback", c.callback)
			server := httptest.NewServer(mux)
			defer server.Close()
			_, err := signin.SignIn(t.Context(), server.URL+"/v1", "dev")
			if err == nil {
				t.Fatal("the sign-in succeeded")
			}
			check.Contains(t, err.Error(), c.want, "error")
		})
	}
}
