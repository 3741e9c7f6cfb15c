package developer

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"github.com/google/uuid"
	"github.com/valyala/fasthttp"

	"examprep.dev/server/httpapi/endpoint"
	"examprep.dev/server/postgres"
	"examprep.dev/server/sessions"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

// TestReadsOfAnAccountWaitForEachOther: without a connection for its account, no read begins.
func TestReadsOfAnAccountWaitForEachOther(t *testing.T) {
	t.Parallel()
	bulkhead := postgres.NewBulkhead(nil, testkit.Database(t), 1)
	account := uuid.New()
	leave, err := bulkhead.Enter(t.Context(), postgres.DeveloperReads, account)
	check.NoError(t, err)
	defer leave()
	ended, end := context.WithCancel(t.Context())
	end()
	reads := 0
	for _, route := range Routes(Deps{Bulkhead: bulkhead}, nil, nil) {
		if route.Access != endpoint.Session || route.Method != http.MethodGet {
			continue
		}
		reads++
		err := route.Handle(ended, &endpoint.Request{Session: sessions.Session{AccountID: account}})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v, want the end of the wait", route.Operation, err)
		}
	}
	if reads < 5 {
		t.Errorf("%d reads: the test sees too few", reads)
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
