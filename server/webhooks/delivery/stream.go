package delivery

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"examprep.dev/server/webhooks"
)

const (
	// group is the consumer group of all workers. They share one consumer, since nothing depends on which of them read an
	// entry.
	group    = "workers"
	consumer = "worker"
	// readBatch is how many wake-ups one read takes, readWait how long an idle read waits for them.
	readBatch = 512
	readWait  = time.Second
)

// stream reads wake-ups: ids of endpoints that have work. It may lose all of them at any time; then the sweep finds the work.
type stream struct {
	redis   redis.UniversalClient
	name    string
	windows *windows
	logger  *slog.Logger
}

// run marks endpoints as due until ctx ends. It begins with the entries that a killed worker did not acknowledge.
func (s *stream) run(ctx context.Context) {
	retry := backoff{logger: s.logger, doing: "reading the webhook stream"}
	for from := "0"; ctx.Err() == nil; {
		endpoints, err := s.read(ctx, from)
		if retry.failed(ctx, err) {
			continue
		}
		from = ">"
		s.windows.markDue(endpoints...)
	}
}

// read waits for wake-ups and removes them from the stream. A group that vanished (flush, fail-over) is made again.
func (s *stream) read(ctx context.Context, from string) ([]uuid.UUID, error) {
	found, err := s.redis.XReadGroup(ctx, &redis.XReadGroupArgs{
		Group: group, Consumer: consumer, Streams: []string{s.name, from}, Count: readBatch, Block: readWait,
	}).Result()
	switch {
	case errors.Is(err, redis.Nil):
		return nil, nil
	case redis.HasErrorPrefix(err, "NOGROUP"), redis.HasErrorPrefix(err, "UNBLOCKED"): // the latter: it vanished during the wait
		return nil, s.ensureGroup(ctx)
	case err != nil:
		return nil, fmt.Errorf("read stream: %w", err)
	}
	var endpoints []uuid.UUID
	var ids []string
	for _, message := range found[0].Messages {
		ids = append(ids, message.ID)
		if text, ok := message.Values[webhooks.WakeUpField].(string); ok {
			if id, err := uuid.FromBytes([]byte(text)); err == nil {
				endpoints = append(endpoints, id)
			}
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	_, err = s.redis.Pipelined(ctx, func(p redis.Pipeliner) error {
		p.XAck(ctx, s.name, group, ids...)
		p.XDel(ctx, s.name, ids...)
		return nil
	})
	if err != nil {
		s.logger.DebugContext(ctx, "wake-ups stay in the stream", "error", err) // they are read, and MAXLEN removes them
	}
	return endpoints, nil
}

func (s *stream) ensureGroup(ctx context.Context) error {
	err := s.redis.XGroupCreateMkStream(ctx, s.name, group, "0").Err()
	if err != nil && !redis.HasErrorPrefix(err, "BUSYGROUP") {
		return fmt.Errorf("make consumer group: %w", err)
	}
	return nil
}
