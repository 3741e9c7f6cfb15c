// Package directory holds all live API keys in each API pod, so that a request needs no look-up. It guarantees:
//
//   - After a revocation was answered, no pod accepts a request with the key. One exception is below.
//   - After the creation of a key was answered, no pod refuses it as unknown.
//
// # Protocol
//
//  1. A trigger numbers each change of keys, tiers and account names (key_changes). Numbers are in the order of commits, and
//     no number comes back after a failover or a restore.
//  2. A pod loads keys, tiers and the newest number in one snapshot. It inserts its row in api_pods, and renews its lease.
//  3. A renewal is one statement. It writes the number that the pod has applied to its row, and returns later changes. Once the
//     pod has applied all, it has a lease, which ends when either clock shows 2 s since the renewal was sent. It renews twice a
//     second and after each NOTIFY. If PostgreSQL lacks the pod's number or row, the pod starts again with step 2.
//  4. A pod with a lease tells Redis its number. Redis keeps the higher one. The next renewal writes that number to the row.
//  5. The author of a change commits, reads the newest number n, and waits ([Author.Confirm]) until both hold. (a) Each row that
//     is not marked lost has applied n, or 2.5 s have passed, so older leases are over. (b) Each row has applied n, or one pod has
//     told Redis n; a new key needs only (a). It marks rows as lost that did not renew. A lost pod registers before it renews.
//  6. A request reads the clocks, checks the lease, and then looks the key up ([Directory.Find]). Without a lease it notes the
//     pod's number, looks the key up, and reads Redis' number. If they are equal, a known key passes. Otherwise: 503.
//  7. A pod that ends deletes its row after its last response.
//
// # Failures
//
//	pod killed or silent      the next change takes 2.5 s
//	PostgreSQL unreachable    known keys pass if Redis has no newer number; others get 503; after 24 h all do
//	Redis unreachable         keys pass by the lease; while a lost pod's row remains, revocations are not confirmed
//	both unreachable          503 from 2 s after the last renewal on
//	Redis loses its number    503 without a lease, until a pod with a lease tells it again
//	PostgreSQL loses commits  the pod loads again; if Redis has a higher number, a pod adds an empty change above it
//	wrong number in Redis     if it is more than a day ahead of PostgreSQL's time, a pod with a lease replaces it by its own
//	unreadable row            its key is refused (examprep_keys_unreadable_rows); all others work
//
// The exception: a pod without a lease accepts a revoked key while its Redis lacks the last number, after a failover, a restart
// from an older file, or at a deposed master. It ends when a pod that reaches both stores tells Redis again, within 0.5 s.
//
// Assumed: PostgreSQL keeps what it confirmed, and a deposed primary confirms nothing (synchronous replication or fencing). While
// a process or its machine is paused, one of its clocks goes on.
//
// A key takes less than 100 bytes. The package knows no HTTP. server/keys changes keys; it does not import this package.
package directory
