package directory

import "time"

// Timings are the times of the protocol of leases. The zero value means [Production]. All processes of an installation must
// have the same.
type Timings struct {
	// Lease is how long a lease lasts from before its renewal was sent.
	Lease time.Duration
	// Wait is how long a change waits for silent pods. It must be longer than Lease.
	Wait time.Duration
	// Limit bounds the whole wait of a change. A pod that has not renewed for so long has no share of the rate limits.
	Limit time.Duration
	// Call bounds a statement.
	Call time.Duration
	// Renew is the time between two renewals without a notification.
	Renew time.Duration
	// Retry follows a connection that failed.
	Retry time.Duration
}

// Production returns the timings of an installation.
func Production() Timings {
	return Timings{
		Lease: 2 * time.Second, Wait: 2500 * time.Millisecond, Limit: 5 * time.Second, Call: 2 * time.Second,
		Renew: 500 * time.Millisecond, Retry: 250 * time.Millisecond,
	}
}

// Slower returns timings in which leases last, and changes and statements wait, n times as long. Pods renew and retry as often
// as before. Tests use it: a busy machine must not look like a silent PostgreSQL.
func (t Timings) Slower(n int) Timings {
	for _, d := range []*time.Duration{&t.Lease, &t.Wait, &t.Limit, &t.Call} {
		*d *= time.Duration(n)
	}
	return t
}

// Reading is the time by both clocks. The monotonic clock cannot be set; the wall clock goes on while a machine sleeps.
type Reading struct {
	Monotonic time.Duration
	Wall      time.Time
}

// Clock reads the time. It must be safe for use by several goroutines.
type Clock func() Reading

// MachineClock returns the clock of the machine. Its monotonic time begins now.
func MachineClock() Clock {
	start := time.Now()
	return func() Reading {
		now := time.Now()
		return Reading{Monotonic: now.Sub(start), Wall: now.Round(0)}
	}
}
