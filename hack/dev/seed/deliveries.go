package main

import (
	"context"
	"fmt"
	"net/http"

	"github.com/google/uuid"

	"examprep.dev/server/webhooks/delivery"
)

// newcomers is how many mock attempts are made for a declared endpoint to which nothing was delivered.
const newcomers = 3

// ensureDeliveries makes deliveries in the states that are missing: one that failed for good, some that wait, and some that
// arrived. The mock attempts' events go to every endpoint of the account.
func (s *seeder) ensureDeliveries(ctx context.Context) error {
	endpoints, err := s.endpoints(ctx)
	if err != nil {
		return err
	}
	attempts := 0
	var failing []uuid.UUID
	for _, e := range endpoints {
		if !e.Enabled {
			continue
		}
		if e.Declared && e.Delivered == 0 {
			attempts = newcomers
		}
		if e.Ours && e.Pending == 0 {
			attempts = max(attempts, 1)
		}
		if e.Ours && e.Failed == 0 { // sent before the others, so that it is the oldest
			id, err := s.sendTest(ctx, e.ID)
			if err != nil {
				return err
			}
			failing = append(failing, id)
		}
	}
	if err := s.makeAttempts(ctx, attempts); err != nil {
		return err
	}
	for _, id := range failing {
		if err := s.exhaust(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

// sendTest sends a test event to an endpoint and returns the id of its delivery.
func (s *seeder) sendTest(ctx context.Context, endpoint uuid.UUID) (uuid.UUID, error) {
	var started struct {
		ID uuid.UUID `json:"delivery_id"`
	}
	err := s.call(ctx, http.MethodPost, "/webhooks/"+endpoint.String()+"/test", nil, http.StatusAccepted, &started)
	return started.ID, err
}

// exhaust shortens the waits before the retries of a delivery until the worker gives it up. Then it dates the delivery
// attempts as if the worker had waited.
func (s *seeder) exhaust(ctx context.Context, id uuid.UUID) error {
	err := poll(ctx, "the retries of a delivery run out", func() (bool, error) {
		_, err := s.pool.Exec(ctx, `
			UPDATE webhook_deliveries SET next_attempt_at = now()
			WHERE id = $1 AND state = 'pending' AND lease_id IS NULL AND next_attempt_at > now()`, id)
		if err != nil {
			return false, err
		}
		pending := true
		err = s.pool.QueryRow(ctx, "SELECT state = 'pending' FROM webhook_deliveries WHERE id = $1", id).Scan(&pending)
		return !pending, err
	})
	if err != nil {
		return err
	}
	s.madef("a delivery that failed")
	return s.dateBack(ctx, id)
}

// dateBack moves the delivery attempts, but for the last, back by the waits that follow them.
func (s *seeder) dateBack(ctx context.Context, id uuid.UUID) error {
	delays := delivery.RetryDelays()
	until := make([]float64, len(delays)) // from each attempt to the last, in seconds
	total := 0.0
	for i := len(delays) - 1; i >= 0; i-- {
		total += delays[i].Seconds()
		until[i] = total
	}
	for _, statement := range []string{
		`UPDATE webhook_attempts SET began_at = began_at - coalesce(($2::float8[])[attempt], 0) * interval '1 second'
		 WHERE delivery_id = $1`,
		`UPDATE webhook_deliveries SET created_at = created_at - ($2::float8[])[1] * interval '1 second' WHERE id = $1`,
		`UPDATE webhook_endpoints SET failing_since = failing_since - ($2::float8[])[1] * interval '1 second'
		 WHERE id = (SELECT endpoint_id FROM webhook_deliveries WHERE id = $1)`,
	} {
		if _, err := s.pool.Exec(ctx, statement, id, until); err != nil {
			return fmt.Errorf("date a delivery back: %w", err)
		}
	}
	return nil
}
