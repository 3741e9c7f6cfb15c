package gate

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
)

// lineRest is how long a line may rest between two calls. Whatever became of its connection meanwhile, the pool finds out
// before it is used again. Under load it is a fraction of a millisecond.
const lineRest = 20 * time.Millisecond

// lines are connections that scripts are called on, one call after the other, without a look at the pool in between:
// taking one from it and giving it back cost a system call and as much again, for each batch.
type lines struct {
	client *redis.Client
	now    func() time.Time
	idle   chan line
}

// line is a connection, and when it was last used.
type line struct {
	conn *redis.Conn
	used time.Time
}

// newLines returns as many lines as calls may be under way; nil on a Cluster, whose client knows where each call goes.
func newLines(rdb redis.UniversalClient, most int, now func() time.Time) *lines {
	client, ok := rdb.(*redis.Client)
	if !ok {
		return nil
	}
	return &lines{client: client, now: now, idle: make(chan line, most)}
}

// process makes a call. After one that failed the pool decides what becomes of the connection, and of those that rest: they
// lead to the same server.
func (l *lines) process(ctx context.Context, cmd redis.Cmder) {
	conn := l.take()
	if conn.Process(ctx, cmd) != nil {
		_ = conn.Close()
		l.giveBack()
		return
	}
	select {
	case l.idle <- line{conn, l.now()}:
	default:
		_ = conn.Close()
	}
}

// giveBack leaves the lines that rest to the pool.
func (l *lines) giveBack() {
	for {
		select {
		case rested := <-l.idle:
			_ = rested.conn.Close()
		default:
			return
		}
	}
}

// take returns a connection that was used a moment ago, or one that the pool has looked at.
func (l *lines) take() *redis.Conn {
	select {
	case rested := <-l.idle:
		if l.now().Sub(rested.used) <= lineRest {
			return rested.conn
		}
		_ = rested.conn.Close()
	default:
	}
	return l.client.Conn()
}
