package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"examprep.dev/hack/dev/signin"
)

// pollEvery is the time between two checks of what other processes do.
const pollEvery = 100 * time.Millisecond

// seeder gives one account something to show.
type seeder struct {
	api          string // URL of the API, with its version
	apiKey       string // of the account
	account      string
	subject      string // of a member, at the provider
	receiverPort string
	hosts        []string // names that can lead to this machine
	pool         *pgxpool.Pool
	now          func() time.Time

	accountID uuid.UUID
	browser   *signin.Browser // nil until a step needs it
	made      []string        // what this run made
}

// run makes what is missing.
func (s *seeder) run(ctx context.Context) error {
	if err := s.pool.QueryRow(ctx, "SELECT id FROM accounts WHERE name = $1", s.account).Scan(&s.accountID); err != nil {
		return fmt.Errorf("find the account %q: %w", s.account, err)
	}
	steps := []func(context.Context) error{s.ensureKeys, s.ensureUsage, s.ensureEndpoint, s.ensureDeliveries}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return errors.Join(err, s.signOut(ctx))
		}
	}
	return s.signOut(ctx)
}

// call makes a request of the member, who signs in before the first one.
func (s *seeder) call(ctx context.Context, method, path string, body any, status int, result any) error {
	if s.browser == nil {
		if err := s.signIn(ctx); err != nil {
			return fmt.Errorf("sign in as %s: %w", s.subject, err)
		}
	}
	return s.browser.Call(ctx, method, path, body, status, result)
}

// signIn signs the member in, and chooses the account if the member works in another one.
func (s *seeder) signIn(ctx context.Context) (err error) {
	if s.browser, err = signin.SignIn(ctx, s.api, s.subject); err != nil {
		return err
	}
	var now struct {
		AccountID string `json:"account_id"`
	}
	id := s.accountID.String()
	if err := s.browser.Call(ctx, http.MethodGet, "/session", nil, http.StatusOK, &now); err != nil || now.AccountID == id {
		return err
	}
	return s.browser.Call(ctx, http.MethodPut, "/session/account", map[string]string{"account_id": id}, http.StatusOK, nil)
}

// signOut ends the session, if there is one.
func (s *seeder) signOut(ctx context.Context) error {
	if s.browser == nil {
		return nil
	}
	return s.browser.SignOut(ctx)
}

// madef notes what this run made.
func (s *seeder) madef(format string, args ...any) {
	s.made = append(s.made, fmt.Sprintf(format, args...))
}

// poll calls done until it returns true or an error, or until ctx ends.
func poll(ctx context.Context, what string, done func() (bool, error)) error {
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	for {
		if ready, err := done(); ready || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait until %s: %w", what, context.Cause(ctx))
		case <-ticker.C:
		}
	}
}
