// Package webhooks tells customers what happened: it owns endpoints and their signing secrets, the outbox of events and
// deliveries, and the worker that brings each delivery to its receiver.
//
// The path of an event. Whoever changes state calls the SQL function webhook_record_event in the same transaction, so
// the event and one delivery row per subscribed endpoint are on disk exactly when the change is. A [Notifier] wakes the
// relays. A relay claims due rows and puts their ids, nothing else, on a Redis stream; any worker takes ids from the
// stream, leases the rows in Postgres, posts the signed body, and writes the outcome back, fenced by attempt and lease.
//
// How it keeps busy. A try may begin once its lease is on disk, so a worker waits for commits all the time. Two leases may
// be under way at once, each of many rows, and outcomes are written beside both, while tries go on. Nothing that is
// promised rests on there being one at a time: no try begins before its own lease is committed, places and windows count
// from before the lease on, and leases of one worker exclude each other as those of two workers do, by the row.
//
// How it fails. Postgres is the truth and Redis only a hint of where work is: a stream that was flushed, a group that
// vanished, a worker that was killed, a notification that was lost each cost time, never an event, because the sweep
// finds every due row that nobody holds. Delivery is at least once, within six tries whose outcome is known. A try counts
// from its lease; one whose lease ran out was lost with its worker: it is logged as that (worker_lost,
// examprep_webhook_lost_tries_total) and not held against the delivery, until 50 of them make it look as if it were what
// ends the workers. An outcome that is told after all takes its place in the log and counts again. The log is of what was
// done, so the fence, which keeps a worker whose lease has passed on from changing the delivery, does not keep its try
// out. It is written by the statement that writes the outcome down. While Redis or Postgres is away the worker waits
// and resumes by itself. A receiver that hangs, lies, redirects or floods costs only its own deliveries time: each
// endpoint has a window of deliveries in flight that shrinks with failures.
//
// How long it is kept. Events, deliveries and tries are in partitions of whole weeks by id: ids are UUIDv7, so a range of
// ids is a range of time. Any worker makes those of the next four weeks, and drops those that are wholly older than the
// retention, so rows live up to a week longer: deliveries first, never a partition with one that is pending, then their
// tries and events. What is pending still a week after that, and 37 days at least, can never be sent (nobody has the key of
// the endpoint's secret): it fails. A default partition takes what no other does, so that no insert ever fails; it is swept
// of what is old. Dropping a partition takes a lock on its whole table for a moment, and gives way where it is not to be
// had: examprep_webhook_retention_errors_total counts that, and a minute later it is tried again. What a worker does to
// partitions goes by the database's clock. Beside a default partition PostgreSQL detaches none CONCURRENTLY.
//
// Statements that are given ids must say so in a way that leaves the planner no choice (queries/webhook_worker.sql), and workers'
// connections leave it none either ([PlannerSettings]): of a queue the statistics know nothing, and it would guess.
//
// Whose deliveries. An account sees and resends only deliveries of its own events, and of events that are everyone's,
// whatever endpoint they went to. An endpoint of a resource that is moved to another account becomes a new endpoint: what
// is pending for the former account's receiver never reaches the next one's.
//
// Mistakes of a caller are *ValidationError, *NotFoundError, *ManagedError, *LimitError, *BusyError and *DisabledError; all
// else is pgx's or go-redis's error, wrapped. Secrets, bodies and learners are never logged.
//
// It imports neither an HTTP server framework nor anything of Kubernetes, and no other domain package but audit: who
// changes an endpoint is recorded in the transaction that does it.
package webhooks
