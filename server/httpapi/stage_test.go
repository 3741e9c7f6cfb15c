package httpapi_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/oauth2-proxy/mockoidc"

	"examprep.dev/server/httpapi/developer"
	"examprep.dev/server/sessions"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/apitest"
	"examprep.dev/server/testkit/check"
)

func newProvider(t testing.TB) *mockoidc.MockOIDC {
	t.Helper()
	provider, err := mockoidc.NewServer(nil)
	check.NoError(t, err)
	check.NoError(t, provider.AddMiddleware(testkit.OneAtATime())) // its handlers share sessions without a lock
	check.NoError(t, provider.Start(testkit.Listen(t), nil))
	t.Cleanup(func() { _ = provider.Shutdown() })
	return provider
}

func developerOf(provider *mockoidc.MockOIDC) func(*apitest.API) *developer.Deps {
	return func(a *apitest.API) *developer.Deps {
		return a.Developer(sessions.Provider{
			Issuer: provider.Issuer(), ClientID: provider.ClientID, ClientSecret: provider.ClientSecret,
			RedirectURL: "http://127.0.0.1/v1/developer/callback",
		})
	}
}

type stage struct {
	*api
	provider *mockoidc.MockOIDC
	// cookie is ada's session.
	cookie string
	// hook is a webhook of hers, and changing one that changes.
	hook, changing string
}

func newStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{provider: newProvider(t)}
	s.api = newAPI(t, apitest.Options{Exams: exemplaryExams(), Developer: developerOf(s.provider)})
	return s
}

func (s *stage) beginSignIn(subject string) request {
	s.t.Helper()
	s.provider.QueueUser(&mockoidc.MockUser{Subject: subject, Email: subject + "@example.org", EmailVerified: true})
	begun := s.call(http.MethodGet, "/v1/developer/sign-in", "", map[string]string{"Authorization": ""})
	ask, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, begun.header.Get("Location"), http.NoBody)
	check.NoError(s.t, err)
	answer, err := http.DefaultTransport.RoundTrip(ask)
	check.NoError(s.t, err)
	_ = answer.Body.Close()
	back, err := url.Parse(answer.Header.Get("Location"))
	check.NoError(s.t, err)
	return request{method: http.MethodGet, path: back.RequestURI(), header: map[string]string{
		"Authorization": "", "Cookie": cookieOf(begun, "__Host-examprep_sign_in"),
	}}
}

func (s *stage) signIn(subject string) string {
	s.t.Helper()
	b := newBrowser(s.t, "http://"+s.Address, http.Header{}, loopbackJar{}, nil)
	b.signInAt(s.provider, subject)
	return sessionCookie + "=" + b.cookie(sessionCookie)
}

func cookieOf(r response, name string) string {
	for _, set := range r.header.Values("Set-Cookie") {
		if pair, _, _ := strings.Cut(set, ";"); strings.HasPrefix(pair, name+"=") && pair != name+"=" {
			return pair
		}
	}
	return ""
}

func (s *stage) send(r request) response {
	s.t.Helper()
	return s.call(r.method, r.path, r.body, r.header)
}
