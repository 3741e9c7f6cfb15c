package delivery

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"
)

const (
	// firstAside is the wait before a result is tried again whose row was locked. It doubles, up to longestAside.
	firstAside   = 250 * time.Millisecond
	longestAside = 5 * time.Second
	// maxAside is how many such results a worker keeps, each of about 1 KB.
	maxAside = 4096
)

// errLocked is why a result that was set aside is given up.
var errLocked = errors.New("another transaction locks the row")

// A setAside result waits for the lock of its row. Such locks are held while an endpoint is deleted, or by a person's transaction.
// The result has a time of its own, so that it delays no other.
type setAside struct {
	completion
	at time.Time // of the next try
}

// keepLocked sets the results aside whose rows are locked, and returns the others. It gives up a result whose lease is over, as then
// the delivery is sent again, and the oldest results beyond maxAside.
func (c *completer) keepLocked(ctx context.Context, batch []completion, locked map[uuid.UUID]bool) []completion {
	if len(locked) == 0 {
		return batch
	}
	now := c.now()
	rest := make([]completion, 0, len(batch)-len(locked))
	for _, r := range batch {
		if !locked[r.row.ID] {
			rest = append(rest, r)
			continue
		}
		if r.leaseEnd.IsZero() {
			r.leaseEnd = now.Add(c.duration)
		}
		if r.wait = min(max(2*r.wait, firstAside), longestAside); now.After(r.leaseEnd) {
			c.drop(ctx, []completion{r}, errLocked)
		} else {
			c.aside = append(c.aside, setAside{r, now.Add(r.wait)})
		}
	}
	for len(c.aside) > maxAside {
		c.drop(ctx, []completion{c.aside[0].completion}, errLocked)
		c.aside = c.aside[1:]
	}
	return rest
}

// untilNext is the wait until the next result that was set aside is tried; an hour if there is none.
func (c *completer) untilNext() time.Duration {
	now := c.now()
	wait := time.Hour
	for _, r := range c.aside {
		wait = min(wait, r.at.Sub(now))
	}
	return wait
}

// writeAside tries the results again whose time has come, or any after the end of ctx; at most one batch of them.
func (c *completer) writeAside(ctx context.Context) {
	now := c.now()
	var due []completion
	c.aside = slices.DeleteFunc(c.aside, func(r setAside) bool {
		if len(due) == completeBatch || r.at.After(now) && ctx.Err() == nil {
			return false
		}
		due = append(due, r.completion)
		return true
	})
	if len(due) > 0 {
		c.write(ctx, due)
	}
}
