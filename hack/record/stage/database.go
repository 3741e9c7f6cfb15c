package stage

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// dropTime bounds the end of a stage, whose context may be over.
const dropTime = 20 * time.Second

func (s *Stage) createDatabase(ctx context.Context) error {
	parsed, err := url.Parse(s.cfg.DatabaseURL)
	if err != nil {
		return fmt.Errorf("read the database URL: %w", err)
	}
	if err := s.administer(ctx, "CREATE DATABASE "+s.name); err != nil {
		return err
	}
	s.later(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), dropTime)
		defer cancel()
		_ = s.administer(ctx, "DROP DATABASE "+s.name+" WITH (FORCE)")
	})
	parsed.Path = "/" + s.name
	s.database = parsed.String()
	return nil
}

func (s *Stage) administer(ctx context.Context, statement string) error {
	return execute(ctx, s.cfg.DatabaseURL, statement)
}

// Execute runs a statement in the stage's database.
func (s *Stage) Execute(ctx context.Context, statement string) error {
	return execute(ctx, s.database, statement)
}

func execute(ctx context.Context, address string, statements ...string) error {
	conn, err := pgx.Connect(ctx, address)
	if err != nil {
		return fmt.Errorf("connect to PostgreSQL: %w", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	for _, statement := range statements {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	return nil
}

func (s *Stage) migrate(ctx context.Context) error {
	_, err := s.run(ctx, "migrate")
	return err
}

// insertTiers makes tiers whose buckets do not refill during a capture, so that what remains is the same at each one. The
// keys of people whose keys are used more than once have such a tier, by the name of their account.
func (s *Stage) insertTiers(ctx context.Context) error {
	const insert = "INSERT INTO rate_tiers (name, requests, period_us, burst, accounts) VALUES "
	var accounts []string
	for _, name := range steadyPeople() {
		accounts = append(accounts, "'"+s.Issuer+"#"+name+"'")
	}
	return execute(ctx, s.database,
		insert+"('"+TierSteady+"', 1000, 2678400000000, 1000, ARRAY["+strings.Join(accounts, ", ")+"])",
		insert+"('"+TierTiny+"', 2, 2678400000000, 2, '{}')",
		insert+"('"+TierBurst+"', 60, 60000000, 1000, '{}')",
	)
}

// The rate tiers of a stage.
const (
	TierDefault = ""       // 120 requests in 60 seconds
	TierSteady  = "steady" // 1,000 requests in 31 days
	TierTiny    = "tiny"   // 2 requests in 31 days
	TierBurst   = "burst"  // 60 requests in 60 seconds, from a bucket of 1,000
)
