package webhooks

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
)

const (
	// streamName, behindName and groupName follow the Redis prefix.
	streamName = "webhooks:deliveries"
	behindName = "webhooks:behind"
	groupName  = "workers"
	// maxStream bounds the stream, roughly: more is not lost but comes back by the sweep.
	maxStream = 100_000
	// trimAge is the age at which a hint is dead: its row has long been relayed again.
	trimAge = 10 * time.Minute
	// claimIdle is how long a message may lie with a worker that says nothing before another takes it.
	claimIdle = 30 * time.Second
)

// A hint is a stream message: which delivery is due, and for whom. One that was recalled has no message.
type hint struct {
	message            string
	delivery, endpoint uuid.UUID
	// refused is how often it led to no lease although its delivery was due.
	refused int
}

// stream is the Redis stream of hints. It holds ids only, and may lose all of them at any time.
type stream struct {
	redis    redis.UniversalClient
	name     string
	behind   string
	consumer string
}

func newStream(client redis.UniversalClient, prefix string) *stream {
	return &stream{redis: client, name: prefix + streamName, behind: prefix + behindName, consumer: uuid.NewString()}
}

func (s *stream) add(ctx context.Context, hints []hint) error {
	_, err := s.redis.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, h := range hints {
			p.XAdd(ctx, &redis.XAddArgs{
				Stream: s.name, MaxLen: maxStream, Approx: true,
				Values: []any{"d", h.delivery[:], "e", h.endpoint[:]},
			})
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("add to stream: %w", err)
	}
	return nil
}

// depth is how many hints no worker has taken. What workers hold is not counted: hints that wait in a lane for a
// receiver that hangs, or that a killed worker left behind, must not keep the relays from what is for others.
func (s *stream) depth(ctx context.Context) (int, error) {
	var all *redis.IntCmd
	var held *redis.XPendingCmd
	_, err := s.redis.Pipelined(ctx, func(p redis.Pipeliner) error { // one round trip: an event waits for it
		all, held = p.XLen(ctx, s.name), p.XPending(ctx, s.name, groupName)
		return nil
	})
	switch {
	case all.Err() != nil:
		return 0, fmt.Errorf("measure stream: %w", all.Err())
	case isNoGroup(held.Err()):
		return int(all.Val()), nil
	case err != nil:
		return 0, fmt.Errorf("measure what workers hold: %w", err)
	}
	// A held hint may have been trimmed away already.
	return int(max(all.Val()-held.Val().Count, 0)), nil
}

// read waits up to wait for at most count hints. A group that vanished (a flush, a fail-over) is made again.
func (s *stream) read(ctx context.Context, count int, wait time.Duration) ([]hint, error) {
	found, err := s.redis.XReadGroup(ctx, &redis.XReadGroupArgs{
		Group: groupName, Consumer: s.consumer, Streams: []string{s.name, ">"}, Count: int64(count), Block: wait,
	}).Result()
	switch {
	case errors.Is(err, redis.Nil):
		return nil, nil
	case isNoGroup(err), redis.HasErrorPrefix(err, "UNBLOCKED"): // the latter: it vanished while we waited
		return nil, s.ensureGroup(ctx)
	case err != nil:
		return nil, fmt.Errorf("read stream: %w", err)
	}
	var hints []hint
	for _, stream := range found {
		hints = append(hints, hintsOf(stream.Messages)...)
	}
	return hints, nil
}

// claim takes over messages of workers that have gone silent, and forgets workers that have nothing left.
func (s *stream) claim(ctx context.Context, count int) ([]hint, error) {
	messages, _, err := s.redis.XAutoClaim(ctx, &redis.XAutoClaimArgs{
		Stream: s.name, Group: groupName, Consumer: s.consumer, MinIdle: claimIdle, Start: "0-0", Count: int64(count),
	}).Result()
	if isNoGroup(err) {
		return nil, s.ensureGroup(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("claim from stream: %w", err)
	}
	consumers, err := s.redis.XInfoConsumers(ctx, s.name, groupName).Result()
	if err != nil {
		return hintsOf(messages), nil //nolint:nilerr // tidying up can wait
	}
	// A hint whose worker was forgotten with it, or never acknowledged it, would take up depth for ever.
	if now, err := s.redis.Time(ctx).Result(); err == nil {
		s.redis.XTrimMinID(ctx, s.name, strconv.FormatInt(now.Add(-trimAge).UnixMilli(), 10))
	}
	for _, consumer := range consumers {
		if consumer.Pending == 0 && consumer.Idle > 10*claimIdle && consumer.Name != s.consumer {
			s.redis.XGroupDelConsumer(ctx, s.name, groupName, consumer.Name)
		}
	}
	return hintsOf(messages), nil
}

// done removes hints: acknowledged, they would still lie in the stream.
func (s *stream) done(ctx context.Context, hints []hint) error {
	ids := make([]string, 0, len(hints))
	for _, h := range hints {
		if h.message != "" {
			ids = append(ids, h.message)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	_, err := s.redis.Pipelined(ctx, func(p redis.Pipeliner) error {
		p.XAck(ctx, s.name, groupName, ids...)
		p.XDel(ctx, s.name, ids...)
		return nil
	})
	if err != nil {
		return fmt.Errorf("acknowledge: %w", err)
	}
	return nil
}

// behindMemory is how long it is remembered whose deliveries were put off: longer than any is.
const behindMemory = 2 * maxPark

// shareBehind tells of endpoints whose deliveries were put off, and of those of which none are any more, and returns all
// of the former that any worker told of. Lost, it costs time and nothing else: what was put off comes back by itself.
func (s *stream) shareBehind(ctx context.Context, behind, caughtUp []uuid.UUID) ([]uuid.UUID, error) {
	var members *redis.StringSliceCmd
	_, err := s.redis.Pipelined(ctx, func(p redis.Pipeliner) error {
		if len(caughtUp) > 0 {
			p.SRem(ctx, s.behind, membersOf(caughtUp)...)
		}
		if len(behind) > 0 {
			p.SAdd(ctx, s.behind, membersOf(behind)...)
			p.Expire(ctx, s.behind, behindMemory)
		}
		members = p.SMembers(ctx, s.behind)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("share what was put off: %w", err)
	}
	var all []uuid.UUID
	for _, member := range members.Val() {
		if id := idOf(member); id != uuid.Nil {
			all = append(all, id)
		}
	}
	return all, nil
}

func membersOf(ids []uuid.UUID) []any {
	members := make([]any, len(ids))
	for i, id := range ids {
		members[i] = id[:]
	}
	return members
}

// leave forgets this worker unless it still holds hints: forgotten with it they would lie in the stream as if nobody had
// taken them, and nobody would be given them. They are claimed by another worker, which then forgets this one.
func (s *stream) leave(ctx context.Context) error {
	consumers, err := s.redis.XInfoConsumers(ctx, s.name, groupName).Result()
	if err != nil {
		return fmt.Errorf("ask what this worker holds: %w", err)
	}
	for _, consumer := range consumers {
		if consumer.Name == s.consumer && consumer.Pending == 0 {
			return s.redis.XGroupDelConsumer(ctx, s.name, groupName, s.consumer).Err()
		}
	}
	return nil
}

func (s *stream) ensureGroup(ctx context.Context) error {
	err := s.redis.XGroupCreateMkStream(ctx, s.name, groupName, "0").Err()
	if err != nil && !redis.HasErrorPrefix(err, "BUSYGROUP") {
		return fmt.Errorf("make consumer group: %w", err)
	}
	return nil
}

func isNoGroup(err error) bool { return err != nil && redis.HasErrorPrefix(err, "NOGROUP") }

// hintsOf decodes messages; one that is not ours is kept without ids, so that it is acknowledged and gone.
func hintsOf(messages []redis.XMessage) []hint {
	hints := make([]hint, 0, len(messages))
	for _, message := range messages {
		h := hint{message: message.ID}
		h.delivery = idOf(message.Values["d"])
		h.endpoint = idOf(message.Values["e"])
		hints = append(hints, h)
	}
	return hints
}

func idOf(value any) uuid.UUID {
	text, _ := value.(string)
	id, err := uuid.FromBytes([]byte(strings.Clone(text)))
	if err != nil {
		return uuid.Nil
	}
	return id
}
