package httpapi_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"examprep.dev/api/openapi/openapitest"
	"examprep.dev/server/catalog/read"
	"examprep.dev/server/gate"
	"examprep.dev/server/httpapi"
	"examprep.dev/server/httpapi/developer"
	"examprep.dev/server/keys"
	"examprep.dev/server/sessions"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

// TestTheContractIsWhatTheServerDoes drives every operation through every status that the contract documents, and then
// lets each part of the contract be wrong in turn: some answer must contradict it.
func TestTheContractIsWhatTheServerDoes(t *testing.T) {
	t.Parallel()
	c := newContractRun(t)
	operations := c.recorder.Document.Operations()
	c.driveSlowClients(t, operations)
	for _, o := range operations {
		for _, status := range o.Statuses {
			if drive, has := c.drivers[status]; has {
				c.expect(o, status, drive(o))
			} else if status < http.StatusBadRequest {
				c.expect(o, status, c.send(c.requestFor(o, status)))
			}
		}
	}
	c.driveTheRest()
	c.driveOutages(operations)

	for _, pair := range c.recorder.Missing() {
		t.Errorf("%s is documented, but no request is answered so", pair)
	}
	for _, survivor := range c.recorder.Survivors() {
		t.Errorf("the document could be wrong unseen: %s", survivor)
	}
}

// TestEveryRouteIsInTheContract compares the server's own table with the document, names included.
func TestEveryRouteIsInTheContract(t *testing.T) {
	t.Parallel()
	var served, documented []httpapi.Route
	for _, route := range httpapi.Routes(httpapi.Deps{Catalog: brokenCatalog{}, Developer: &developer.Deps{}}) {
		if !besideContract(route.Path) {
			served = append(served, route)
		}
	}
	for _, o := range document(t).Operations() {
		documented = append(documented, httpapi.Route{Method: o.Method, Path: o.Path, Operation: o.ID})
	}
	for _, route := range served {
		if !slices.Contains(documented, route) {
			t.Errorf("%v is not in the document", route)
		}
	}
	for _, route := range documented {
		if !slices.Contains(served, route) {
			t.Errorf("%v is not served", route)
		}
	}
}

// contractRun is the servers that it takes to see every status.
type contractRun struct {
	*stage
	// broken has parts that fail. limited admits one request an hour from an address. signless has no sign-in. shut has a gate that
	// cannot answer.
	broken, limited, signless, shut *api
	// undecided is the session of a person without an account.
	undecided string
	// exhausted is a key whose allowance is used up.
	exhausted string
	drivers   map[int]func(o openapitest.Operation) response
	conflicts map[string]func() request
}

func newContractRun(t *testing.T) *contractRun {
	t.Helper()
	c := &contractRun{stage: newStage(t)}
	c.recorder = &openapitest.Recorder{Document: document(t)}
	c.cookie = c.signIn("ada")
	c.hook = c.newWebhook(c.cookie)
	c.broken = c.variant(httpapi.Config{}, breakParts)
	c.shut = c.variant(httpapi.Config{}, func(deps *httpapi.Deps) { deps.Gate = shutGate{} })
	c.newInvitation("undecided@example.org")
	c.undecided = c.signIn("undecided")
	c.signless = c.variant(httpapi.Config{}, func(deps *httpapi.Deps) { deps.Developer = nil })
	c.limited = c.variant(httpapi.Config{}, func(deps *httpapi.Deps) {
		other := *c.API // its gate is its own
		deps.Gate = other.NewGate(gate.Config{Anonymous: keys.Tier{Name: "anonymous", Requests: 1, Period: time.Hour, Burst: 1}}, deps.Logger)
	})
	c.limited.call(http.MethodGet, "/v1/exam-prep/list", "", map[string]string{"Authorization": ""})
	c.exhausted = c.NewKey("slow", keys.TierSpec{Requests: 1, Period: time.Hour, Burst: 1})
	c.call(http.MethodGet, "/v1/exam-prep/list", "", map[string]string{"Authorization": "Bearer " + c.exhausted})
	c.drivers = map[int]func(o openapitest.Operation) response{
		http.StatusNotModified:                 c.drive304,
		http.StatusBadRequest:                  c.raw("Host: a\r\nHost: b\r\n\r\n"),
		http.StatusUnauthorized:                c.drive401,
		http.StatusForbidden:                   c.drive403,
		http.StatusNotFound:                    c.drive404,
		http.StatusConflict:                    c.drive409,
		http.StatusRequestEntityTooLarge:       c.raw("Host: a\r\nAuthorization: Bearer " + c.Key + "\r\nContent-Type: application/json\r\nContent-Length: 1000000000\r\n\r\n{"),
		http.StatusUnsupportedMediaType:        c.drive415,
		http.StatusTooManyRequests:             c.drive429,
		http.StatusRequestHeaderFieldsTooLarge: c.raw("Host: a\r\nX: " + strings.Repeat("x", 10_000) + "\r\n\r\n"),
		http.StatusInternalServerError:         c.drive500,
	}
	c.conflicts = c.newConflicts()
	return c
}

// broken has none of its methods, so a call of one panics. Only parts that can return an error fail.
type (
	brokenCatalog  struct{ httpapi.Catalog }
	brokenAttempts struct{ httpapi.Attempts }
	brokenSignIn   struct{ developer.SignIn }
	brokenSessions struct{ developer.Sessions }
)

func (brokenCatalog) Ready() bool                           { return true }
func (brokenCatalog) OnChange(func(exams []read.ExamEntry)) {}

func (brokenSessions) Authentic([]byte) ([]byte, bool) { return nil, true }

func (brokenSessions) Lookup(context.Context, string) (sessions.Session, error) {
	return sessions.Session{}, errors.New("broken")
}

// shutGate cannot answer.
type shutGate struct{ httpapi.Gate }

func (shutGate) Check(context.Context, []byte, netip.Addr) gate.Decision {
	return gate.Decision{RetryAfter: time.Second, Limit: 120, Policy: gate.Policy{Requests: 120, Window: time.Minute}}
}

func breakParts(deps *httpapi.Deps) {
	signedIn := *deps.Developer
	signedIn.SignIn, signedIn.Sessions = brokenSignIn{}, brokenSessions{}
	deps.Catalog, deps.Attempts, deps.Developer = brokenCatalog{}, brokenAttempts{}, &signedIn
}

// expect fails the test unless it was answered with that status; that the answer fits the contract was checked before.
func (c *contractRun) expect(o openapitest.Operation, status int, got response) {
	c.t.Helper()
	got.expect(c.t, status, "%s", o.ID)
}

func (c *contractRun) raw(rest string) func(openapitest.Operation) response {
	return func(o openapitest.Operation) response {
		c.t.Helper()
		conn := c.dial(c.t, "tcp")
		write(c.t, conn, requestLine(o)+rest)
		return c.receive(o, bufio.NewReader(conn))
	}
}

// requestLine is of an operation that names nothing.
func requestLine(o openapitest.Operation) string {
	return o.Method + " " + unknownNames.Replace(o.Path) + " HTTP/1.1\r\n"
}

func (c *contractRun) receive(o openapitest.Operation, from *bufio.Reader) response {
	c.t.Helper()
	got := readResponse(c.t, from, o.Method)
	checkAnswerBy(c.t, c.recorder.Check, o.Method, unknownNames.Replace(o.Path), got)
	return got
}

// driveSlowClients sends requests that never end. A server in a bubble answers them, because no real clock may decide when.
func (c *contractRun) driveSlowClients(t *testing.T, operations []openapitest.Operation) {
	t.Helper()
	httpapi.InBubble(t, httpapi.Config{}, nil, func(_ *testing.T, b *httpapi.Bubble) {
		for _, o := range operations {
			conn := b.Dial()
			send(conn, requestLine(o)+"Host: a\r\n")
			c.expect(o, http.StatusRequestTimeout, c.receive(o, bufio.NewReader(conn)))
		}
	})
}

// requestFor is a request that succeeds with a status. Where an operation has two, the body decides.
func (c *contractRun) requestFor(o openapitest.Operation, status int) request {
	r := c.request(o)
	if o.ID == "recoverWebhook" && status == http.StatusOK {
		r.body = withMember(c.t, r.body, "dry_run", json.RawMessage("true"))
	}
	return r
}

func (c *contractRun) drive304(o openapitest.Operation) response {
	r := c.request(o)
	return c.send(r.with("If-None-Match", c.send(r).header.Get("ETag")))
}

func (c *contractRun) drive401(o openapitest.Operation) response {
	return c.send(c.request(o).with("Authorization", "").with("Cookie", ""))
}

func (c *contractRun) drive403(o openapitest.Operation) response {
	r := c.request(o)
	if o.Method == http.MethodGet {
		return c.send(r.with("Cookie", c.undecided))
	}
	return c.send(r.with("Sec-Fetch-Site", "cross-site"))
}

// drive404 names what does not exist. Operations that name nothing do not exist themselves where there is no sign-in.
func (c *contractRun) drive404(o openapitest.Operation) response {
	r := c.request(o)
	if r.path = unknownNames.Replace(o.Path); r.path == o.Path {
		return c.signless.call(r.method, r.path, r.body, r.header)
	}
	return c.send(r)
}

func (c *contractRun) drive409(o openapitest.Operation) response {
	c.t.Helper()
	make409, has := c.conflicts[o.ID]
	if !has { // the session is of another account
		return c.send(c.request(o).with("Examprep-Account", uuid.NewString()))
	}
	r := make409()
	r.method = o.Method
	return c.send(r)
}

func (c *contractRun) drive415(o openapitest.Operation) response {
	return c.send(c.request(o).with("Content-Type", "text/plain"))
}

// drive429 spends the allowance of a key, or where none is needed of a person and of an address.
func (c *contractRun) drive429(o openapitest.Operation) response {
	r := c.request(o)
	if strings.HasPrefix(o.Path, "/v1/developer/") {
		c.limited.call(http.MethodGet, sessionPath, "", map[string]string{"Authorization": "", "Cookie": r.header["Cookie"]})
		return c.limited.call(r.method, r.path, r.body, r.header)
	}
	return c.send(r.with("Authorization", "Bearer "+c.exhausted))
}

func (c *contractRun) drive500(o openapitest.Operation) response {
	r := c.request(o)
	return c.broken.call(r.method, r.path, r.body, r.header)
}

// driveRefusedPage checks that a failed navigation leads to the page of refusals, which shows reason.
func (c *contractRun) driveRefusedPage(o openapitest.Operation, reason string, got response) {
	c.t.Helper()
	c.expect(o, http.StatusSeeOther, got)
	if at := got.header.Get("Location"); !strings.HasPrefix(at, "/console/refused?reason="+reason+"&") {
		c.t.Errorf("%s leads to %s, want the refusal %s", o.ID, at, reason)
	}
}

// driveOutages makes PostgreSQL, Redis and the provider unreachable: 503. Every request is prepared before. The pod's lease on
// its directory of keys must be over: until then the pod serves exams from memory.
func (c *contractRun) driveOutages(operations []openapitest.Operation) {
	c.t.Helper()
	requests := make([]request, len(operations))
	for i, o := range operations {
		requests[i] = c.request(o)
	}
	fresh := c.variant(httpapi.Config{}, func(deps *httpapi.Deps) { deps.Developer = developerOf(c.provider)(c.API) })
	testkit.CutOff(c.t, c.Pool)
	for _, err := range []error{c.Redis.Close(), c.provider.Shutdown()} {
		check.NoError(c.t, err)
	}
	c.Clock.Pass(3 * time.Second)
	for i, o := range operations {
		got := c.send(requests[i])
		switch o.ID {
		case "beginSignIn": // it needs the provider only until it knows it
			c.driveRefusedPage(o, "provider", fresh.call(requests[i].method, requests[i].path, "", requests[i].header))
		case "completeSignIn":
			c.driveRefusedPage(o, "unavailable", got)
		}
		if o.ID == "beginSignIn" || o.ID == "completeSignIn" { // only the gate returns 503
			got = c.shut.call(requests[i].method, requests[i].path, "", requests[i].header)
		}
		c.expect(o, http.StatusServiceUnavailable, got)
		if seconds, err := strconv.Atoi(got.header.Get("Retry-After")); err != nil || seconds < 1 {
			c.t.Errorf("%s: Retry-After is %q", o.ID, got.header.Get("Retry-After"))
		}
	}
}
