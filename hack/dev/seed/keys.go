package main

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

const (
	day = 24 * time.Hour
	// overlap is how long a rotated key is still accepted: the longest that the API allows.
	overlap = day
)

// sample is an API key that the account must have, in one of four states.
type sample struct {
	name string
	age  time.Duration
	// expires is how long the key lives on; 0 for no end.
	expires time.Duration
	// rotated makes a successor, and the key is accepted for the overlap.
	rotated bool
	// revoked is how long ago the key was revoked; 0 for never.
	revoked time.Duration
	// requests is how many requests the key makes on a working day.
	requests int
}

func samples() []sample {
	return []sample{
		{name: "website", age: 60 * day, requests: 900},
		{name: "mobile app", age: 45 * day, rotated: true, requests: 420},
		{name: "partner trial", age: 25 * day, expires: 5 * day, requests: 60},
		{name: "old website", age: 90 * day, revoked: 3 * day, requests: 150},
	}
}

// key is a row of api_keys.
type key struct {
	ID        uuid.UUID  `db:"id"`
	Prefix    string     `db:"prefix"`
	Name      string     `db:"name"`
	CreatedAt time.Time  `db:"created_at"`
	RevokedAt *time.Time `db:"revoked_at"`
	Expired   bool       `db:"expired"`
	Ends      bool       `db:"ends"`
	Rotated   bool       `db:"rotated"`
}

func (k key) active() bool { return k.RevokedAt == nil && !k.Expired }

// shows reports whether the key is in the state of the sample.
func (k key) shows(want sample) bool {
	switch {
	case k.Name != want.name:
		return false
	case want.revoked > 0:
		return k.RevokedAt != nil
	default:
		return k.active() && k.Rotated == want.rotated && k.Ends == (want.rotated || want.expires > 0)
	}
}

// keys returns the keys of the account, oldest first.
func (s *seeder) keys(ctx context.Context) ([]key, error) {
	rows, _ := s.pool.Query(ctx, `
		SELECT id, prefix, name, created_at, revoked_at, coalesce(expires_at <= now(), false) AS expired,
		       expires_at IS NOT NULL AS ends, rotated_at IS NOT NULL AS rotated
		FROM api_keys WHERE account_id = $1 ORDER BY created_at, id`, s.accountID)
	keys, err := pgx.CollectRows(rows, pgx.RowToStructByName[key]) // reports the query's error as well
	if err != nil {
		return nil, fmt.Errorf("read the keys: %w", err)
	}
	return keys, nil
}

// find returns the first key that fits.
func find(keys []key, fits func(key) bool) (key, bool) {
	for _, k := range keys {
		if fits(k) {
			return k, true
		}
	}
	return key{}, false
}

// ensureKeys makes the samples that no key shows.
func (s *seeder) ensureKeys(ctx context.Context) error {
	keys, err := s.keys(ctx)
	if err != nil {
		return err
	}
	made := 0
	for _, want := range samples() {
		if _, shown := find(keys, func(k key) bool { return k.shows(want) }); shown {
			continue
		}
		if err := s.makeKey(ctx, want, keys); err != nil {
			return fmt.Errorf("make the API key %q: %w", want.name, err)
		}
		made++
	}
	if made > 0 {
		s.madef("API keys (%d)", made)
	}
	return nil
}

// makeKey creates a key and brings it into its state. The successor of an earlier rotation is rotated in its turn.
func (s *seeder) makeKey(ctx context.Context, want sample, keys []key) error {
	var prefix string
	if last, ok := find(keys, func(k key) bool { return k.Name == want.name && k.active() && !k.Rotated }); ok && want.rotated {
		prefix = last.Prefix
	} else {
		var err error
		if prefix, err = s.createKey(ctx, want); err != nil {
			return err
		}
	}
	switch path := "/keys/" + prefix; {
	case want.rotated:
		body := map[string]int{"overlap_seconds": int(overlap.Seconds())}
		return s.call(ctx, http.MethodPost, path+"/rotate", body, http.StatusCreated, nil)
	case want.revoked > 0:
		if err := s.call(ctx, http.MethodDelete, path, nil, http.StatusNoContent, nil); err != nil {
			return err
		}
		_, err := s.pool.Exec(ctx, "UPDATE api_keys SET revoked_at = $2 WHERE prefix = $1", prefix, s.now().Add(-want.revoked))
		return err
	default:
		return nil
	}
}

// createKey creates a key by the API, dates it back, and returns its prefix.
func (s *seeder) createKey(ctx context.Context, want sample) (string, error) {
	body := map[string]any{"name": want.name}
	if want.expires > 0 {
		body["expires_at"] = s.now().Add(want.expires).UTC().Format(time.RFC3339)
	}
	var created struct {
		Prefix string `json:"key_prefix"`
	}
	if err := s.call(ctx, http.MethodPost, "/keys", body, http.StatusCreated, &created); err != nil {
		return "", err
	}
	_, err := s.pool.Exec(ctx, "UPDATE api_keys SET created_at = $2 WHERE prefix = $1", created.Prefix, s.now().Add(-want.age))
	return created.Prefix, err
}
