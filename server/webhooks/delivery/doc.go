// Package delivery is the webhook worker: it delivers the events that server/webhooks records.
//
// # The path of a delivery
//
//  1. A transaction calls webhook_record_events: an event row, and for each endpoint a delivery row in state pending.
//  2. After the commit an API pod adds the endpoint ids to a Redis stream. An entry means "this endpoint has work".
//  3. One worker reads the entry and marks the endpoint due in its windows (stream.go, window.go).
//  4. Dispatch takes endpoints that are due and have room, and leases that many of their due rows in one statement.
//  5. Each leased row is one goroutine: sign, POST, classify (dispatch.go, package send).
//  6. The completer writes results in batches, fenced by lease and attempt. After a failure it sets the time of the next
//     attempt (complete.go, schedule.go).
//  7. Once a second each worker looks for endpoints with due rows without a lease: lost wake-ups, retries, expired leases
//     (sweep.go). It also cancels the rows of endpoints that are disabled or deleted (cancel.go). Most sweeps and all leases of
//     an endpoint begin at a lower bound of next_attempt_at, so that they do not walk the index entries of rows that have ended.
//
// # What is lost when something fails
//
// Events never: PostgreSQL has them, and Redis has only wake-ups. Delivery is at least once: a worker that dies between a
// receiver's response and the commit of the result leaves a lease that expires, and the delivery is sent again. The attempt
// of an expired lease is logged as worker_lost and does not count. A result that arrives later replaces that log entry, and
// nothing else. An outage of PostgreSQL makes a worker wait. A row that PostgreSQL refuses to lease, to complete or to cancel
// costs that delivery only: it is logged, counted in examprep_webhook_results_dropped_total, and left out for ten minutes. A row that
// another transaction has locked delays only its own result, which is given up when the lease is over (aside.go).
//
// # How long rows are kept
//
// Tables are partitioned by the week of the UUIDv7 ids. Each worker makes the partitions of the next eight weeks and drops
// those that are older than the retention (package retention). A partition with pending deliveries stays five weeks or more.
//
// Secrets, bodies and responses are never logged. The package imports no HTTP server and nothing of Kubernetes.
//
// # Where the tests are
//
//   - worker_test.go: a delivery from the event to its last state, health and secrets of endpoints, and benchmarks.
//   - api_test.go: test events, redeliveries, recoveries, rotations and moves of endpoints, up to the receiver.
//   - spec_test.go: a receiver that is written from docs/spec.md alone.
//   - aside_test.go: rows that another transaction has locked.
//   - skip_test.go: deliveries and endpoints that are left out.
//   - lease_test.go: lost attempts, late results, rows that PostgreSQL refuses.
//   - backlog_test.go: the sweep, cancellations, gauges, and the rows that statements read.
//   - window_test.go: the windows, and hanging receivers that delay no other.
//   - schedule_test.go: retry delays.
//   - outage_test.go: Redis, PostgreSQL or a worker fails, and how a worker stops.
//   - chaos_*_test.go: all of that at random, in make soak and make soak-short.
//   - harness_test.go, process_test.go: what tests share; workers in processes of their own.
package delivery
