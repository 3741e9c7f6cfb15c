package developer

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"github.com/google/uuid"
	"github.com/valyala/fasthttp"

	"examprep.dev/server/accounts"
	"examprep.dev/server/httpapi/endpoint"
	"examprep.dev/server/postgres"
	"examprep.dev/server/sessions"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

// TestCallsOfAnOwnerWaitForEachOther: without a connection for its account, or for a person without one, no call begins. Only the session
// itself is read without a connection.
func TestCallsOfAnOwnerWaitForEachOther(t *testing.T) {
	t.Parallel()
	bulkhead := postgres.NewBulkhead(nil, testkit.Database(t), 1)
	ada := accounts.Person{Issuer: "https://id.example", Subject: "ada"}
	ended, end := context.WithCancel(t.Context())
	end()
	for name, session := range map[string]sessions.Session{
		"in an account":      {Person: ada, AccountID: uuid.New(), Role: accounts.Viewer},
		"without an account": {Person: ada},
	} {
		leave, err := bulkhead.Enter(t.Context(), postgres.DeveloperCalls, session.Tenant())
		check.NoError(t, err)
		methods := make(map[string]int)
		for _, route := range Routes(Deps{Bulkhead: bulkhead}, nil, nil) {
			if route.Access != endpoint.Session || route.Operation == "getSession" {
				continue
			}
			methods[route.Method]++
			err := route.Handle(ended, &endpoint.Request{HTTP: new(fasthttp.RequestCtx), Session: session})
			if !errors.Is(err, context.Canceled) {
				t.Errorf("%s: %s: %v, want the end of the wait", name, route.Operation, err)
			}
		}
		if methods[http.MethodGet] < 5 || methods[http.MethodPost] < 5 || methods[http.MethodDelete] < 3 {
			t.Errorf("%v: the test sees too few operations", methods)
		}
		leave()
	}
}

// waitingSignIn is a sign-in at a provider that never responds.
type waitingSignIn struct{ SignIn }

// Begin returns when ctx ends.
func (waitingSignIn) Begin(ctx context.Context, _ string) (address, cookie string, err error) {
	<-ctx.Done()
	return "", "", ctx.Err()
}

// Complete returns when ctx ends.
func (waitingSignIn) Complete(ctx context.Context, _ string, _ sessions.Callback) (sessions.SignedIn, error) {
	<-ctx.Done()
	return sessions.SignedIn{}, ctx.Err()
}

func TestSignInEndsWithTheContextOfItsRequest(t *testing.T) {
	t.Parallel()
	ended, end := context.WithCancel(t.Context())
	end()
	tried := 0
	for _, route := range Routes(Deps{SignIn: waitingSignIn{}}, nil, nil) {
		if route.Operation != "beginSignIn" && route.Operation != "completeSignIn" {
			continue
		}
		tried++
		returned := make(chan error, 1)
		go func() { returned <- route.Handle(ended, &endpoint.Request{HTTP: new(fasthttp.RequestCtx)}) }()
		if err := testkit.Receive(t, returned, "the return of "+route.Operation); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v, want the end of the request", route.Operation, err)
		}
	}
	check.Equal(t, tried, 2, "operations")
}
