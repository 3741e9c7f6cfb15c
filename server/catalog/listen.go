package catalog

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// notifyChannel is what Publisher notifies on; the payload is the exam key.
	notifyChannel = "examprep_catalog"
	// listenerName marks the connection in pg_stat_activity.
	listenerName = "examprep catalogue listener"
	// closeTimeout bounds saying good-bye to a server that may be gone.
	closeTimeout = time.Second
)

// listen hears of new revisions on a connection of its own until ctx ends. Whatever breaks it, it connects again; what
// was notified meanwhile is found by the full look that follows each LISTEN, and by the poll.
func (s *Snapshot) listen(ctx context.Context) {
	wait := retryFirst
	for {
		err := s.hear(ctx, func() { wait = retryFirst })
		if ctx.Err() != nil {
			return
		}
		s.logger.WarnContext(ctx, "catalogue listener lost; polling until it is back", "error", err)
		if !sleep(ctx, wait) {
			return
		}
		wait = min(2*wait, retryMost)
	}
}

// hear listens on one connection until that fails; connected is called once it listens.
func (s *Snapshot) hear(ctx context.Context, connected func()) error {
	cfg := s.pool.Config().ConnConfig
	cfg.RuntimeParams["application_name"] = listenerName
	conn, err := connect(ctx, cfg, s.cfg.LoadTimeout)
	if err != nil {
		return err
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
		defer cancel()
		_ = conn.Close(closing)
	}()
	connected()
	s.stale.addAll()
	for {
		notification, err := conn.WaitForNotification(ctx)
		if err != nil {
			return fmt.Errorf("wait for notifications: %w", err)
		}
		s.stale.add(notification.Payload)
	}
}

func connect(ctx context.Context, cfg *pgx.ConnConfig, timeout time.Duration) (*pgx.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("connect listener: %w", err)
	}
	if _, err := conn.Exec(ctx, "LISTEN "+notifyChannel); err != nil {
		_ = conn.Close(ctx)
		return nil, fmt.Errorf("listen: %w", err)
	}
	return conn, nil
}
