package delivery

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"examprep.dev/server/postgres"
	"examprep.dev/server/postgres/webhooksdb"
	"examprep.dev/server/webhooks"
)

const (
	// gaugeInterval is how often the backlog is measured, secretInterval how often secrets are maintained: both read a table.
	gaugeInterval  = 15 * time.Second
	secretInterval = 10 * time.Minute
	// windowMemory is how long the window of an idle endpoint is remembered.
	windowMemory = 15 * time.Minute
	// backlogBound is how many pending deliveries are counted.
	backlogBound = 100_000
)

// maintainer updates gauges, deletes expired secrets and encrypts the others with the first key.
type maintainer struct {
	queries *webhooksdb.Queries
	keyring *webhooks.Keyring
	windows *windows
	metrics *metrics
	logger  *slog.Logger
	now     func() time.Time
}

func (m *maintainer) run(ctx context.Context) {
	retry := backoff{logger: m.logger, doing: "measuring the webhook backlog"}
	secrets := backoff{logger: m.logger, doing: "maintaining signing secrets"}
	for last := (time.Time{}); ctx.Err() == nil; {
		m.windows.forget(m.now().Add(-windowMemory))
		retry.failed(ctx, m.updateGauges(ctx))
		if now := m.now(); now.Sub(last) >= secretInterval {
			if err := m.keepSecrets(ctx); !secrets.failed(ctx, err) || !postgres.Unavailable(err) {
				last = now
			}
		}
		pause(ctx, gaugeInterval)
	}
}

func (m *maintainer) updateGauges(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, gaugeInterval)
	defer cancel()
	backlog, err := m.queries.Backlog(ctx, backlogBound)
	if err != nil {
		return fmt.Errorf("measure backlog: %w", err)
	}
	failing, err := m.queries.CountFailing(ctx, (webhooks.DisableAfter / 2).Seconds())
	if err != nil {
		return fmt.Errorf("count failing endpoints: %w", err)
	}
	m.metrics.backlog.WithLabelValues("due").Set(float64(backlog.Due))
	m.metrics.backlog.WithLabelValues("waiting").Set(float64(backlog.Waiting))
	m.metrics.failing.Set(float64(failing))
	return nil
}

func (m *maintainer) keepSecrets(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, gaugeInterval)
	defer cancel()
	// Not one after the other's success: a secret that cannot be deleted keeps none from being encrypted.
	return errors.Join(webhooks.DropExpiredSecrets(ctx, m.queries), m.keyring.Reencrypt(ctx, m.queries))
}
