// Package webhooks owns webhook events, endpoints, signing secrets and deliveries. It has the part that API pods and the operator
// use; package delivery has the worker that sends.
//
// # An event
//
// The transaction of a change calls the SQL function webhook_record_event with an [Event] of [NewEvent], or webhook_record_events
// with several. The function writes the event and one pending delivery for each endpoint that subscribes to it. So both are on disk
// exactly if the change is.
// After the commit a [Notifier] wakes a worker. Delivery is at least once; receivers recognise a repetition by dedupe_key.
//
// # Two owners of endpoints
//
// [Endpoints] stores what signed-in developers register over HTTP, and records each change in the audit log in the same transaction.
// [Managed] stores what resources of the cluster declare; over HTTP these endpoints are read-only. An [AddressPolicy] decides which
// addresses a URL can contain; the worker checks each address again when it dials.
//
// [Deliveries] shows an account the deliveries of its own events and of events for all accounts, sends tests, and sends missed
// deliveries again. Its writes for one endpoint wait for each other at the endpoint's row, so none is made twice. An endpoint
// whose resource moves to another account becomes a new endpoint: pending deliveries of the former account are cancelled.
//
// # Signing secrets
//
// A [Keyring] encrypts secrets in the database (AES-256-GCM, bound to the endpoint). After a rotation two secrets sign for 24 hours.
//
// # Errors
//
// A mistake of the caller is *ValidationError, *NotFoundError, *ManagedError, *LimitError or *DisabledError. Other errors are pgx's,
// wrapped. Secrets, bodies and learners are never logged.
//
// The package imports no HTTP framework, nothing of Kubernetes, and no domain package but audit.
package webhooks
