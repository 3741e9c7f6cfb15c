package httpapi_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"examprep.dev/server/gate"
	"examprep.dev/server/httpapi"
	"examprep.dev/server/keys"
)

// scarceAllowance is the number of requests an hour of an address, and of a session, of [console.scarce].
const scarceAllowance = 3

// scarce serves from the console's stores with a gate of its own, whose allowance is small.
func (c *console) scarce() *api {
	c.test.Helper()
	return c.variant(httpapi.Config{}, func(deps *httpapi.Deps) {
		other := *c.API // NewGate replaces its gate
		deps.Gate = other.NewGate(gate.Config{Anonymous: keys.Tier{
			Name: "anonymous", Requests: scarceAllowance, Period: time.Hour, Burst: scarceAllowance,
		}}, deps.Logger)
	})
}

func (a *api) withSession(token string) *browser {
	a.t.Helper()
	jar := loopbackJar{}
	if token != "" {
		jar[sessionCookie] = token
	}
	return newBrowser(a.t, "http://"+a.Address, http.Header{}, jar, nil)
}

func expectAllowance(t *testing.T, name string, got response, status, remaining int) {
	t.Helper()
	if got.status != status || got.header.Get("RateLimit-Remaining") != fmt.Sprint(remaining) ||
		got.header.Get("RateLimit-Limit") != fmt.Sprint(scarceAllowance) {
		t.Errorf("%s: %d, %s of %s left, want %d, %d of %d: %s", name, got.status, got.header.Get("RateLimit-Remaining"),
			got.header.Get("RateLimit-Limit"), status, remaining, scarceAllowance, got.body)
	}
}

func TestKeylessFloodDoesNotStopARevocation(t *testing.T) {
	t.Parallel()
	c, ada := newConsoleOfAda(t)
	leaked := ada.make(keysPath, `{"name":"leaked"}`)
	token := ada.cookie(sessionCookie)
	a := c.scarce()
	for n := range scarceAllowance {
		expectAllowance(t, "flood", a.withSession("").get("/v1/exam-prep/list"), http.StatusUnauthorized, scarceAllowance-1-n)
	}
	expectAllowance(t, "without a key", a.withSession("").get("/v1/exam-prep/list"), http.StatusTooManyRequests, 0)
	expectAllowance(t, "without a session", a.withSession("").get(keysPath), http.StatusTooManyRequests, 0)
	expectAllowance(t, "made-up cookie", a.withSession("made-up").get(keysPath), http.StatusTooManyRequests, 0)

	revoked := a.withSession(token).send(http.MethodDelete, keysPath+"/"+textOf(leaked, "key_prefix"), "", nil)
	expectAllowance(t, "revocation", revoked, http.StatusNoContent, scarceAllowance-1)
	got := c.call(http.MethodGet, "/v1/exam-prep/list", "", map[string]string{"Authorization": "Bearer " + textOf(leaked, "key")})
	got.expect(t, http.StatusUnauthorized, "the revoked key")
}

// TestMadeUpCookieIsCountedByItsAddress: a new cookie for each request gives no new allowance.
func TestMadeUpCookieIsCountedByItsAddress(t *testing.T) {
	t.Parallel()
	c := newConsole(t)
	token := c.signedIn("ada").cookie(sessionCookie)
	a := c.scarce()
	last := len(token) - 1
	for n, made := range []string{
		"made-up", token[:last], token[:last] + string(token[last]^1), // its check is wrong
	} {
		expectAllowance(t, made, a.withSession(made).get(sessionPath), http.StatusUnauthorized, scarceAllowance-1-n)
	}
	expectAllowance(t, "another made-up cookie", a.withSession("made-up-too").get(sessionPath), http.StatusTooManyRequests, 0)
	expectAllowance(t, "without a key", a.withSession("").get("/v1/exam-prep/list"), http.StatusTooManyRequests, 0)
	expectAllowance(t, "session", a.withSession(token).get(sessionPath), http.StatusOK, scarceAllowance-1)
}

func TestEachSessionHasAnAllowance(t *testing.T) {
	t.Parallel()
	c := newConsole(t)
	ada, bob := c.signedIn("ada").cookie(sessionCookie), c.signedIn("bob").cookie(sessionCookie)
	a := c.scarce()
	for n := range scarceAllowance {
		expectAllowance(t, "ada", a.withSession(ada).get(sessionPath), http.StatusOK, scarceAllowance-1-n)
	}
	expectAllowance(t, "ada's next request", a.withSession(ada).get(sessionPath), http.StatusTooManyRequests, 0)
	expectAllowance(t, "bob", a.withSession(bob).get(sessionPath), http.StatusOK, scarceAllowance-1)
	expectAllowance(t, "their address", a.withSession("").get("/v1/exam-prep/list"), http.StatusUnauthorized, scarceAllowance-1)
}
