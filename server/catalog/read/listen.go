package read

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

const (
	// notifyChannel is the channel of the publishing transaction's NOTIFY; the payload is the exam key.
	notifyChannel = "examprep_catalog"
	// listenerName is the connection's application_name in pg_stat_activity.
	listenerName = "examprep catalogue listener"
	// listenerPause is the pause before the listener connects again.
	listenerPause = time.Second
	// listenerCheck is how long the listener waits for a notification before it asks whether its server still responds.
	listenerCheck = 2 * time.Second
)

// listen requests a refresh of each notified exam until ctx ends, and connects again whenever its connection fails. The full
// refresh after each LISTEN, and the poll, find the revisions whose notifications were lost.
func (s *Snapshot) listen(ctx context.Context) {
	for ctx.Err() == nil {
		if err := s.waitForNotifications(ctx); ctx.Err() == nil {
			s.logger.WarnContext(ctx, "catalogue listener lost; polling until it is back", "error", err)
			sleep(ctx, listenerPause)
		}
	}
}

// waitForNotifications listens on a connection of its own until that fails.
func (s *Snapshot) waitForNotifications(ctx context.Context) error {
	cfg := s.pool.Config().ConnConfig
	cfg.RuntimeParams["application_name"] = listenerName
	connecting, cancel := context.WithTimeout(ctx, s.cfg.LoadTimeout)
	defer cancel()
	conn, err := pgx.ConnectConfig(connecting, cfg)
	if err != nil {
		return fmt.Errorf("connect listener: %w", err)
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(closing) // its server may be unreachable
	}()
	if _, err := conn.Exec(connecting, "LISTEN "+notifyChannel); err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	s.news.listen(true)
	defer s.news.listen(false)
	for {
		notification, err := nextNotification(ctx, conn, s.cfg.LoadTimeout)
		if err != nil {
			return fmt.Errorf("wait for notifications: %w", err)
		}
		if notification != nil {
			s.news.add(notification.Payload)
		}
	}
}

// nextNotification returns the next notification, or nil if none came for a while and the server still responds within a time.
func nextNotification(ctx context.Context, conn *pgx.Conn, within time.Duration) (*pgconn.Notification, error) {
	waiting, cancel := context.WithTimeout(ctx, listenerCheck)
	defer cancel()
	notification, err := conn.WaitForNotification(waiting)
	if waiting.Err() == nil || ctx.Err() != nil || conn.IsClosed() {
		return notification, err
	}
	asking, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	return notification, conn.Ping(asking)
}
