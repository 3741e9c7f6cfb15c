package sessions_test

import (
	"context"
	"errors"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"examprep.dev/server/redisurl"
	"examprep.dev/server/redisurl/redistest"
	"examprep.dev/server/sessions"
)

// missingNode is what a cluster's client meets while a node is away: only the other nodes' commands run.
type missingNode struct {
	has func(command, name string) bool
}

var errNodeAway = errors.New("the node is away")

func (missingNode) DialHook(next redis.DialHook) redis.DialHook { return next }

func (m missingNode) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, command redis.Cmder) error {
		if m.isOf(command) {
			command.SetErr(errNodeAway)
			return errNodeAway
		}
		return next(ctx, command)
	}
}

func (m missingNode) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, commands []redis.Cmder) error {
		var reached []redis.Cmder
		var failed error
		for _, command := range commands {
			if m.isOf(command) {
				command.SetErr(errNodeAway)
				failed = errNodeAway
				continue
			}
			reached = append(reached, command)
		}
		if len(reached) == 0 {
			return failed
		}
		return errors.Join(next(ctx, reached), failed)
	}
}

func (m missingNode) isOf(command redis.Cmder) bool {
	if len(command.Args()) < 2 {
		return false
	}
	name, _ := command.Args()[1].(string)
	return m.has(command.Name(), name)
}

// without returns the fixture's store as it is while a node is away.
func (f *fixture) without(t *testing.T, has func(command, name string) bool) *sessions.Store {
	t.Helper()
	client, _ := redistest.New(t)
	client.AddHook(missingNode{has})
	return sessions.NewStore(client, f.prefix, time.Hour, 8*time.Hour, func() time.Time { return *f.clock })
}

// created is a session, signed in to, and what it is called in Redis.
type created struct{ token, name string }

func (f *fixture) create(t *testing.T, account uuid.UUID) created {
	t.Helper()
	names := func() []string {
		names, err := f.redis.Keys(t.Context(), f.prefix+"session:*").Result()
		must(t, err)
		return names
	}
	before := names()
	token, err := f.store.Create(t.Context(), sessions.Session{AccountID: account})
	must(t, err)
	added := slices.DeleteFunc(names(), func(name string) bool { return slices.Contains(before, name) })
	if len(added) != 1 {
		t.Fatalf("%v were stored, want one session", added)
	}
	return created{token, added[0]}
}

// ended checks that sessions have ended.
func (f *fixture) ended(t *testing.T, which ...created) {
	t.Helper()
	for i, session := range which {
		var none *sessions.NoSessionError
		if _, err := f.store.Lookup(t.Context(), session.token); !errors.As(err, &none) {
			t.Errorf("session %d: got %v, want a NoSessionError", i, err)
		}
	}
}

func TestASignOutEverywhereThatFailedIsMadeGoodByTheNext(t *testing.T) {
	for name, away := range map[string]func(own, other, name string) bool{
		"without the other's node": func(_, other, name string) bool { return name == other },
		"without one's own node":   func(own, _, name string) bool { return name == own },
		"without both":             func(own, other, name string) bool { return name == own || name == other },
		"without the list's":       func(own, other, name string) bool { return name != own && name != other },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			account := uuid.New()
			own, other := f.create(t, account), f.create(t, account)
			mine, err := f.store.Lookup(t.Context(), own.token)
			must(t, err)
			half := f.without(t, func(_, name string) bool { return away(own.name, other.name, name) })
			var unavailable *sessions.UnavailableError
			if err := half.EndAll(t.Context(), mine); !errors.As(err, &unavailable) {
				t.Fatalf("got %v, want an UnavailableError", err)
			}
			if _, err := f.store.Lookup(t.Context(), own.token); err != nil {
				t.Errorf("nobody is left to try again: %v", err)
			}
			must(t, f.store.EndAll(t.Context(), mine))
			f.ended(t, own, other)
		})
	}
}

func TestAListThatCannotBeWrittenKeepsNobodySignedIn(t *testing.T) {
	f := newFixture(t)
	account := uuid.New()
	own, other, third := f.create(t, account), f.create(t, account), f.create(t, account)
	mine, err := f.store.Lookup(t.Context(), own.token)
	must(t, err)
	half := f.without(t, func(command, _ string) bool { return command == "zrem" })
	must(t, half.End(t.Context(), third.token))
	must(t, half.EndAll(t.Context(), mine))
	f.ended(t, own, other, third)
}

func TestARequestsDeadlineEndsTheWaitForRedis(t *testing.T) {
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0") // takes connections, and says nothing
	must(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	client, err := redisurl.Open("redis://"+listener.Addr().String(), func(o *redis.UniversalOptions) {
		sessions.ClientOptions(o)
		o.ReadTimeout, o.WriteTimeout = time.Hour, time.Hour // what ends it is not these
	})
	must(t, err)
	t.Cleanup(func() { _ = client.Close() })
	store := sessions.NewStore(client, "test:", time.Hour, time.Hour, time.Now)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	failed := make(chan error, 1)
	go func() {
		_, err := store.Lookup(ctx, "token")
		failed <- err
	}()
	select {
	case err := <-failed:
		if _, ok := errors.AsType[*sessions.UnavailableError](err); !ok {
			t.Errorf("got %v, want an UnavailableError", err)
		}
	case <-time.After(waitFor):
		t.Error("the request waits on beyond its deadline")
	}
}

func TestEveryCallToRedisIsBounded(t *testing.T) {
	var o redis.UniversalOptions
	sessions.ClientOptions(&o)
	for name, timeout := range map[string]time.Duration{
		"dial": o.DialTimeout, "read": o.ReadTimeout, "write": o.WriteTimeout, "pool": o.PoolTimeout,
	} {
		if timeout <= 0 || timeout > 2*time.Second {
			t.Errorf("%s: %s", name, timeout)
		}
	}
	if o.MaxRetries > 1 || o.DialerRetries != 1 { // 0: the client's own many
		t.Errorf("%d retries, %d of the dialer", o.MaxRetries, o.DialerRetries)
	}
}

func TestNoSessionIsStoredWithoutAnEnd(t *testing.T) {
	client, prefix := redistest.New(t)
	for _, c := range []struct{ idle, absolute time.Duration }{{0, time.Hour}, {time.Hour, 0}, {-1, time.Hour}, {time.Hour, -1}} {
		store := sessions.NewStore(client, prefix, c.idle, c.absolute, time.Now)
		if token, err := store.Create(t.Context(), sessions.Session{AccountID: uuid.New()}); err == nil || token != "" {
			t.Errorf("%+v: a session was begun (%v)", c, err)
		}
		names, err := client.Keys(t.Context(), prefix+"*").Result()
		if err != nil || len(names) != 0 {
			t.Errorf("%+v: Redis holds %v, %v", c, names, err)
		}
	}
}

// waitFor is how long a test waits for what must come.
const waitFor = 20 * time.Second
