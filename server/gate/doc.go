// Package gate decides for each request whose API key it carries and whether it may pass, in one call to Redis.
//
// PostgreSQL is the source of truth for keys. Redis holds verified keys and the token buckets.
//
// # Buckets
//
// A bucket is two whole numbers: the time of the last write, and the contents in units of 1/period of a token. No rate is
// rounded. The time is that of Redis; a step back adds and removes no tokens. A request without a valid key uses the bucket
// of its client address, which has a time to live. A [batcher] combines waiting requests into script calls, at most two at a
// time; n requests of one key ask for n tokens. The pod remembers a denial until the next token is due, at most 500 ms
// ([denials]). It never remembers a grant. [guesses] limits how often a pod looks up unknown keys, per address and in all.
//
// # How a revoked key stays revoked
//
// A key's version rises in the transaction that changes the key. Three rules decide whether a record in Redis counts.
//
// Tickets. A pod that finds no verified record stores a random ticket, or joins the load whose ticket it finds. Then it reads
// PostgreSQL, and writes the record only if the ticket is still in place. An announced change replaces or removes the ticket.
// So a load that read before the commit cannot write after the announcement. Announcements are ordered by version, and a
// revocation is always written.
//
// Terms. A failover or a restart can bring back old records. Each record has the term in which it was verified, and only the
// current term counts. Pods agree on the term in PostgreSQL (gate_terms); each new Redis server begins one. The text of the
// script contains the server's identity, and script caches are neither replicated nor persisted. So another server returns
// NOSCRIPT and has executed nothing.
//
// Trust. A pod uses Redis for [Config.Trust] (2 s, by its monotonic clock) after the start of its last comparison with
// PostgreSQL. A comparison reads the term and the changes that are not announced, and announces them. A response that
// arrives later is checked again. If Redis cannot be written, or the term is new, [Gate.Announce] waits for Trust and a
// margin. By then every pod has compared since the commit, or has stopped using that Redis.
//
// The exception: a pod that cannot reach PostgreSQL goes on with Redis as it is. If at the same time the revoking pod cannot
// reach Redis, and no pod reaches both, the first pod accepts the revoked key until one connection recovers.
//
// # Storage
//
// Records are fields of one hash, or of 256 on a Redis Cluster. A record has 104 bytes and takes about 190 of memory. Fields
// have no time to live; [Gate.Run] deletes records an hour after their bucket was full again, tombstones after ten minutes,
// and tickets after ten seconds. A lost record is loaded again, with a full bucket. A hash that no pod has swept for a week
// expires.
//
// # Failures
//
//	Redis down, slow or not trusted  keys are read from PostgreSQL; each pod grants its share of the limits
//	Redis emptied                    keys are loaded again; buckets start full
//	PostgreSQL down                  keys in Redis pass; other keys get 503
//	both down, or a full queue       503 with Retry-After
//
// A failed call is not repeated, because it can have taken tokens. Redis is tried again after 100 ms to 1 s. It needs
// maxmemory-policy noeviction and hash-max-listpack-value below 104, and clients need [ClientOptions].
//
// It imports keys, go-redis and the Prometheus client. It must never import HTTP, Kubernetes or another domain.
package gate
