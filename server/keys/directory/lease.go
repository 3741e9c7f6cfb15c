package directory

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

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
	return attempt{begin: d.cfg.Clock(), applied: c.number.Load(), told: c.told.Load(), higher: d.higher.Load()}
}

// finish applies the changes that a renewal returned. If these were all, the lease lasts from before the renewal was sent.
func (d *Directory) finish(ctx context.Context, db database, a attempt, r keysdb.RenewLeaseRow) error {
	renewal := &lease{begin: a.begin, now: r.Now}
	d.renewal.Store(renewal)
	if !r.Registered {
		d.lease.Store(nil) // authors do not wait for a pod without a row
	}
	if r.Lost && !r.Renewed { // the next renewal begins after this is committed, so authors wait for it
		return d.register(ctx, db, a.applied)
	}
	if !r.Registered || !r.Renewed {
		return errLoad
	}
	c := d.contents.Load()
	if n := len(r.Numbers); n > 0 {
		if err := db.read(ctx, c, r.Hashes); err != nil {
			return err
		}
		c.number.Store(r.Numbers[n-1])
	}
	d.pods.Store(r.Pods)
	if len(r.Numbers) == maxChanges {
		return nil // there can be more
	}
	d.lease.Store(renewal)
	select {
	case d.renewed <- struct{}{}:
	default:
	}
	if a.higher > c.number.Load() && d.higher.CompareAndSwap(a.higher, 0) { // PostgreSQL has lost commits, or never gave it
		added, err := db.AddEmptyKeyChange(ctx, a.higher)
		if err != nil {
			return fmt.Errorf("add an empty change: %w", err)
		}
		if added == 0 {
			d.wrong.Store(a.higher)
		}
	}
	return nil
}

// load replaces the contents of the directory.
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

// register registers the pod, or a lost one again, with the number that it has applied.
func (d *Directory) register(ctx context.Context, db database, applied int64) error {
	ctx, cancel := context.WithTimeout(ctx, d.cfg.Timings.Call)
	defer cancel()
	row := keysdb.RegisterPodParams{ID: d.id, Applied: applied, Used: d.contents.Load().used(), Budget: int64(d.cfg.Budget)}
	if err := db.RegisterPod(ctx, row); err != nil {
		return fmt.Errorf("register pod: %w", err)
	}
	return nil
}

// renew renews the lease once.
func (d *Directory) renew(ctx context.Context, db database) error {
	ctx, cancel := context.WithTimeout(ctx, d.cfg.Timings.Call)
	defer cancel()
	a := d.begin()
	r, err := db.RenewLease(ctx, keysdb.RenewLeaseParams{
		ID: d.id, Applied: a.applied, Told: a.told, Used: d.contents.Load().used(), SilentUs: d.cfg.Timings.Limit.Microseconds(), Most: maxChanges,
	})
	if err != nil {
		return fmt.Errorf("renew lease: %w", err)
	}
	return d.finish(ctx, db, a, r)
}

// Run loads the directory and renews the lease until ctx ends, which must be after the last request. It returns a
// [*TooLargeError] if the first load exceeds the budget.
func (d *Directory) Run(ctx context.Context) error {
	helping, stop := context.WithCancel(ctx)
	var helpers sync.WaitGroup
	helpers.Go(func() { (&teller{d: d}).run(helping) })
	helpers.Go(func() { d.pruner.run(helping) })
	defer helpers.Wait()
	defer stop()
	for ctx.Err() == nil {
		err := d.follow(ctx)
		wait := d.cfg.Timings.Retry
		if tooLarge, ok := errors.AsType[*TooLargeError](err); ok {
			if d.lease.Load() == nil {
				return tooLarge
			}
			wait = tooLargePause
		}
		if ctx.Err() == nil && d.failure != err.Error() {
			d.failure = err.Error()
			d.cfg.Logger.Warn("the lease on the directory of keys was not renewed; known keys pass while Redis has no newer change",
				"error", err)
		}
		pause(ctx, wait)
	}
	d.lease.Store(nil)
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), d.cfg.Timings.Call)
	defer cancel()
	if err := keysdb.New(d.pool).DeregisterPod(closing, d.id); err != nil {
		d.cfg.Logger.Warn("the pod's row was not deleted; the next revocation waits 2.5 s for it", "error", err)
	}
	return nil
}

// follow keeps the directory current by a connection of its own, until that fails or ctx ends.
func (d *Directory) follow(ctx context.Context) error {
	cfg := d.pool.Config().ConnConfig
	cfg.RuntimeParams["application_name"] = "examprep key directory"
	opening, cancel := context.WithTimeout(ctx, d.cfg.Timings.Call)
	defer cancel()
	conn, err := postgres.Connect(opening, cfg)
	if err != nil {
		return err
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), d.cfg.Timings.Call)
		defer cancel()
		_ = conn.Close(closing)
	}()
	// Without jit: compiling a renewal takes longer than running it. With synchronous_commit: a crash of the server must not
	// lose a pod's row.
	if _, err := conn.Exec(opening, `LISTEN examprep_keys; SET jit = off;
		SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'`); err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	return d.keepCurrent(ctx, newConnection(conn, &d.cfg))
}

// keepCurrent loads the directory if that is necessary, and renews the lease, until something fails or ctx ends.
func (d *Directory) keepCurrent(ctx context.Context, db *connection) error {
	for {
		if err := d.loadAndRegister(ctx, db); err != nil {
			return err
		}
		before := d.contents.Load().number.Load()
		start := d.cfg.Clock().Monotonic
		if err := d.renew(ctx, db); errors.Is(err, errLoad) {
			d.loaded = false
			continue
		} else if err != nil {
			return err
		}
		if d.failure != "" {
			d.failure = ""
			d.cfg.Logger.Info("PostgreSQL is back; the directory of keys is current")
		}
		if start-d.pruned > pruneEvery {
			d.pruned = start
			if l := d.lease.Load(); l != nil { // its time is PostgreSQL's own: a clock that steps removes no key
				d.contents.Load().keys.removeExpired(l.now) // no change removes them
			}
			d.pruner.start()
		}
		pause(ctx, minPause-(d.cfg.Clock().Monotonic-start))
		if d.contents.Load().number.Load() != before || !d.Leased() {
			continue // acknowledge what was applied, or renew after the pod was lost
		}
		waiting, cancel := context.WithTimeout(ctx, d.cfg.Timings.Renew)
		_, err := db.conn.WaitForNotification(waiting)
		cancel()
		if err != nil && (ctx.Err() != nil || waiting.Err() == nil) {
			return fmt.Errorf("wait for changes: %w", err)
		}
	}
}

// loadAndRegister does so if that is necessary. A new connection alone needs no load.
func (d *Directory) loadAndRegister(ctx context.Context, db *connection) error {
	if d.loaded {
		return nil
	}
	if err := d.load(ctx, db); err != nil {
		return err
	}
	if d.lease.Load() == nil {
		debug.FreeOSMemory() // the pod is not ready yet, and its first reading leaves much garbage
	}
	if err := d.register(ctx, db, d.contents.Load().number.Load()); err != nil {
		return err
	}
	d.loaded = true
	return nil
}

// pause waits for d or the end of ctx.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
