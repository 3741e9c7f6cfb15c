package stage

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"

	"examprep.dev/hack/dev/signin"
)

const (
	clientID     = "examprep"
	clientSecret = "the secret of recordings"
	callbackPath = "/v1/developer/callback"
)

// startSignIn serves the sign-in provider from this process, and chooses the API's address, which the provider must know.
func (s *Stage) startSignIn(ctx context.Context) error {
	var err error
	if s.Address, err = freeAddress(ctx); err != nil {
		return err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("serve the sign-in provider: %w", err)
	}
	s.Issuer = "http://" + listener.Addr().String() + signin.Path
	users := make([]signin.User, 0, len(people()))
	for _, name := range people() {
		users = append(users, signin.User{Subject: name, Email: name + "@example.com", Name: name})
	}
	provider, err := signin.New(signin.Config{
		Issuer: s.Issuer, ClientID: clientID, ClientSecret: clientSecret, RedirectURL: "http://" + s.Address + callbackPath, Users: users,
	})
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = provider.Serve(ctx, listener) // sign-ins fail then, and say so
	}()
	s.later(func() {
		cancel()
		<-ended
	})
	return nil
}

// people may sign in. The stock's keys are for exchanges that need a key that was never used.
func people() []string { return append(steadyPeople(), "stock", "full") }

// steadyPeople have keys of [TierSteady].
func steadyPeople() []string { return []string{"ada", "bob", "eve"} }

// Approve signs in as subject at the provider address that the API redirected to. It returns path and query of the
// callback.
func (s *Stage) Approve(ctx context.Context, address, subject string) (string, error) {
	form := url.Values{"subject": {subject}}.Encode()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, address, strings.NewReader(form))
	if err != nil {
		return "", fmt.Errorf("sign in as %s: %w", subject, err)
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	response, err := client.Do(request)
	if err != nil {
		return "", fmt.Errorf("sign in as %s: %w", subject, err)
	}
	defer func() { _ = response.Body.Close() }()
	back, err := response.Location()
	if err != nil {
		return "", fmt.Errorf("sign in as %s: %s: %w", subject, response.Status, err)
	}
	return back.RequestURI(), nil
}
