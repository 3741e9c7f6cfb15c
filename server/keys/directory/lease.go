package directory

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"examprep.dev/server/postgres"
	"examprep.dev/server/postgres/keysdb"
)

// attempt is a renewal that was sent.
type attempt struct {
	begin         Reading
	applied, told int64
	higher        int64 // a number that Redis had before
}

// errLoad reports that everything must be loaded again: PostgreSQL does not have the pod's number or its row.
var errLoad = errors.New("the directory must be loaded again")

// begin notes the time and the state of the directory before a renewal is sent.
func (d *Directory) begin() attempt {
	c := d.contents.Load()
	return attempt{begin: d.cfg.Clock(), applied: c.number.Load(), told: d.teller.told(c), higher: d.teller.higher.Load()}
}

// finish applies the changes that a renewal returned. If these were all, the lease lasts from before the renewal was sent.
func (d *Directory) finish(ctx context.Context, db database, a attempt, r renewal) error {
	if !r.registered {
		d.lease.Store(nil) // authors do not wait for a pod without a row
		return errLoad
	}
	if !r.renewed {
		return errLoad
	}
	c := d.contents.Load()
	if err := d.apply(ctx, db, c, r); err != nil {
		return err
	}
	d.pods.Store(int32(r.pods))
	if len(r.numbers) == maxChanges {
		return nil // there can be more
	}
	d.lease.Store(&lease{
		begin: a.begin, until: a.begin.Monotonic + leaseTime, wall: a.begin.Wall.Add(leaseTime), now: r.now,
	})
	d.teller.soon()
	if a.higher > c.number.Load() && d.teller.higher.CompareAndSwap(a.higher, 0) {
		return db.addEmpty(ctx, a.higher) // PostgreSQL has lost commits
	}
	return nil
}

// apply reads the keys and tiers that changed.
func (d *Directory) apply(ctx context.Context, db database, c *contents, r renewal) error {
	if len(r.numbers) == 0 {
		return nil
	}
	tiers := false
	changed := make([][]byte, 0, len(r.hashes))
	for _, hash := range r.hashes {
		if len(hash) == 0 {
			tiers = true
			continue
		}
		changed = append(changed, hash)
	}
	if err := db.read(ctx, c, changed, tiers); err != nil {
		return err
	}
	c.number.Store(r.numbers[len(r.numbers)-1])
	return nil
}

// load replaces the directory.
func (d *Directory) load(ctx context.Context, db database) error {
	ctx, cancel := context.WithTimeout(ctx, loadTimeout)
	defer cancel()
	c, err := db.load(ctx)
	if err != nil {
		return err
	}
	d.contents.Store(c)
	return nil
}

// register registers the pod with the number of the directory in use. It must follow load.
func (d *Directory) register(ctx context.Context, db database) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return db.register(ctx, d.contents.Load().number.Load())
}

// renew renews the lease once.
func (d *Directory) renew(ctx context.Context, db database) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	a := d.begin()
	r, err := db.renew(ctx, a.applied, a.told)
	if err != nil {
		return err
	}
	return d.finish(ctx, db, a, r)
}

// Run loads the directory and renews the lease until ctx ends, which must be after the last request. It returns a
// [*TooLargeError] if the first load exceeds the budget.
func (d *Directory) Run(ctx context.Context) error {
	telling, stop := context.WithCancel(ctx)
	told := make(chan struct{})
	go func() {
		defer close(told)
		d.tell(telling)
	}()
	defer func() {
		stop()
		<-told
	}()
	loaded, failing := false, false
	for ctx.Err() == nil {
		err := d.follow(ctx, &loaded, func() {
			if failing {
				d.cfg.Logger.Info("PostgreSQL is back; the directory of keys is current")
			}
			failing = false
		})
		if tooLarge, ok := errors.AsType[*TooLargeError](err); ok && d.lease.Load() == nil {
			tooLarge.Setting = d.cfg.BudgetSetting
			return tooLarge
		}
		if ctx.Err() == nil && !failing {
			failing = true
			d.cfg.Logger.Warn("the lease on the directory of keys was not renewed; known keys pass while Redis has no newer change", "error", err)
		}
		pause(ctx, retryPause)
	}
	d.lease.Store(nil)
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
	defer cancel()
	if err := keysdb.New(d.pool).DeregisterPod(closing, d.id); err != nil {
		d.cfg.Logger.Warn("the pod's row was not deleted; the next revocation waits 2.5 s for it", "error", err)
	}
	return nil
}

// follow keeps the directory current by one connection, until that fails or ctx ends. A new connection needs no load.
func (d *Directory) follow(ctx context.Context, loaded *bool, renewed func()) error {
	conn, err := d.listen(ctx)
	if err != nil {
		return err
	}
	defer closeSoon(ctx, conn)
	db := newConnection(conn, d.id, d.cfg)
	var pruned time.Duration
	for {
		if !*loaded {
			if err := d.load(ctx, db); err != nil {
				return err
			}
			if err := d.register(ctx, db); err != nil {
				return err
			}
			*loaded = true
		}
		before := d.contents.Load().number.Load()
		start := d.cfg.Clock().Monotonic
		err := d.renew(ctx, db)
		if errors.Is(err, errLoad) {
			*loaded = false
			continue
		}
		if err != nil {
			return err
		}
		renewed()
		if start-pruned > pruneEvery {
			pruned = start
			if err := db.prune(ctx); err != nil {
				return err
			}
		}
		pause(ctx, minPause-(d.cfg.Clock().Monotonic-start))
		if d.contents.Load().number.Load() != before {
			continue // acknowledge what was applied
		}
		waiting, cancel := context.WithTimeout(ctx, renewEvery)
		_, err = conn.WaitForNotification(waiting)
		cancel()
		if err != nil && (ctx.Err() != nil || waiting.Err() == nil) {
			return fmt.Errorf("wait for changes: %w", err)
		}
	}
}

// listen opens the pod's own connection, which hears of changes.
func (d *Directory) listen(ctx context.Context) (*pgx.Conn, error) {
	cfg := d.pool.Config().ConnConfig
	cfg.RuntimeParams["application_name"] = "examprep key directory"
	opening, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	conn, err := postgres.Connect(opening, cfg)
	if err != nil {
		return nil, err
	}
	// Without jit: compiling a renewal takes longer than running it. With synchronous_commit: a crash of the server must not
	// lose a pod's row.
	if _, err := conn.Exec(opening, `LISTEN examprep_keys; SET jit = off;
		SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'`); err != nil {
		closeSoon(ctx, conn)
		return nil, fmt.Errorf("listen: %w", err)
	}
	return conn, nil
}

func closeSoon(ctx context.Context, conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
	defer cancel()
	_ = conn.Close(ctx)
}

// pause waits for d or the end of ctx.
func pause(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
