// Package webhooks tells customers what happened: it owns endpoints and their signing secrets, the outbox of events and
// deliveries, and the worker that brings each delivery to its receiver.
//
// The path of an event. Whoever changes state calls the SQL function webhook_record_event in the same transaction, so
// the event and one delivery row per subscribed endpoint are on disk exactly when the change is. A [Notifier] wakes the
// relays. A relay claims due rows and puts their ids, nothing else, on a Redis stream; any worker takes ids from the
// stream, leases the rows in Postgres, posts the signed body, and writes the outcome back, fenced by attempt and lease.
//
// How it fails. Postgres is the truth and Redis only a hint of where work is: a stream that was flushed, a group that
// vanished, a worker that was killed, a notification that was lost each cost time, never an event, because the sweep
// finds every due row that nobody holds. Delivery is at least once, within six tries, with one exception: a try counts
// from its lease, so a delivery whose worker was killed during each of the six, before or after the request went out,
// ends as failed with the error worker_lost (examprep_webhook_lost_tries_total); its owner may have it redelivered. While Redis or Postgres is away the worker waits
// and resumes by itself. A receiver that hangs, lies, redirects or floods costs only its own deliveries time: each
// endpoint has a window of deliveries in flight that shrinks with failures.
//
// Whose deliveries. An account sees and resends only deliveries of its own events, and of events that are everyone's,
// whatever endpoint they went to. An endpoint of a resource that is moved to another account becomes a new endpoint: what
// is pending for the former account's receiver never reaches the next one's.
//
// Mistakes of a caller are *ValidationError, *NotFoundError, *ManagedError, *LimitError and *DisabledError; all else is
// pgx's or go-redis's error, wrapped. Secrets, bodies and learners are never logged.
//
// It imports neither an HTTP server framework nor anything of Kubernetes, and no other domain package but audit: who
// changes an endpoint is recorded in the transaction that does it.
package webhooks
