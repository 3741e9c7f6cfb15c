package read

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// notifyChannel is the channel of the publishing transaction's NOTIFY; the payload is the exam key.
	notifyChannel = "examprep_catalog"
	// listenerName is the connection's application_name in pg_stat_activity.
	listenerName = "examprep catalogue listener"
)

// listen queues each notified exam until ctx ends, and connects again whenever its connection fails. The full refresh after
// each LISTEN, and the poll, find the revisions whose notifications were lost.
func (s *Snapshot) listen(ctx context.Context) {
	for retry := minRetryPause; ; {
		err := s.waitForNotifications(ctx, func() { retry = minRetryPause })
		if ctx.Err() != nil {
			return
		}
		s.logger.WarnContext(ctx, "catalogue listener lost; polling until it is back", "error", err)
		sleep(ctx, retry)
		retry = min(2*retry, maxRetryPause)
	}
}

// waitForNotifications listens on a connection of its own until that fails. It calls connected once it listens.
func (s *Snapshot) waitForNotifications(ctx context.Context, connected func()) error {
	cfg := s.pool.Config().ConnConfig
	cfg.RuntimeParams["application_name"] = listenerName
	conn, err := connect(ctx, cfg, s.cfg.LoadTimeout)
	if err != nil {
		return err
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(closing) // its server may be unreachable
	}()
	connected()
	s.queue.add(allExams)
	for {
		notification, err := conn.WaitForNotification(ctx)
		if err != nil {
			return fmt.Errorf("wait for notifications: %w", err)
		}
		s.queue.add(notification.Payload)
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
