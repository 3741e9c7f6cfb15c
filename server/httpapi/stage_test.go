package httpapi_test

import (
	"bytes"
	"encoding/base64"
	"testing"
	"time"

	"github.com/oauth2-proxy/mockoidc"

	"examprep.dev/server/httpapi"
	"examprep.dev/server/redisurl/redistest"
	"examprep.dev/server/sessions"
	"examprep.dev/server/webhooks"
)

// sessionLifetime is the absolute time-out of the test's sessions.
const sessionLifetime = 8 * time.Hour

// newProvider runs an OpenID Connect provider until the test ends.
func newProvider(t testing.TB) *mockoidc.MockOIDC {
	t.Helper()
	provider, err := mockoidc.Run()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = provider.Shutdown() })
	return provider
}

// newDeveloper is what the developer endpoints stand on, with that provider.
func newDeveloper(a *api, provider *mockoidc.MockOIDC) *httpapi.Developer {
	a.t.Helper()
	ring, err := webhooks.ParseKeyring("k:" + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{1}, 32)))
	if err != nil {
		a.t.Fatal(err)
	}
	client, prefix := redistest.New(a.t)
	store := sessions.NewStore(client, prefix, time.Hour, sessionLifetime, time.Now)
	return &httpapi.Developer{
		SignIn: sessions.NewSignIn(sessions.Provider{
			Issuer: provider.Issuer(), ClientID: provider.ClientID, ClientSecret: provider.ClientSecret,
			RedirectURL: "http://127.0.0.1/v1/developer/callback",
		}, a.keys, store, a.pool),
		Sessions: store, Keys: a.keys, Webhooks: webhooks.NewEndpoints(a.pool, ring, nil),
		Environment: "sandbox", SessionLifetime: sessionLifetime,
	}
}
