// Package retention maintains the weekly partitions of webhook events, deliveries and attempts. Each worker of package
// delivery runs a [Maintainer]; workers need no leader.
//
// An id (UUIDv7) begins with its time, and a partition holds the ids of one week, counted from the epoch. A [Maintainer]
// makes the partitions of the current week and the next eight. It deletes old rows by dropping partitions, in this order:
//
//  1. deliveries whose ids are all older than the retention. A partition with pending deliveries stays a week longer, and
//     until a week after webhooks.DefaultRetention if that is later.
//  2. attempts of a week whose deliveries are dropped.
//  3. events, a week later: a redelivery of the last delivery needs the event's body.
//
// Each table also has a default partition, for the rows of a week without a partition. A Maintainer counts these rows and
// never deletes them. PostgreSQL refuses a week's partition while the default partition has rows of that week.
//
// # What happens when something fails
//
// Each partition is added or dropped by one statement with a timeout, and a failure does not stop the others. A statement
// waits for a lock for 200 ms at most, because inserts queue behind it. So another session's lock delays the maintenance
// and no event. A failed run is logged, counted in examprep_webhook_retention_errors_total, and repeated after a minute.
//
// It imports webhooks and its generated queries.
package retention
