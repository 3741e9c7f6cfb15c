// Package gate answers, for each request, whose key this is and whether it may pass, in one round trip to Redis.
//
// # The bucket
//
// Each key has a continuous token bucket of its tier's burst, refilled with requests per period. It is kept as two whole
// numbers, the time of the last write and the contents in units of 1/period of a token (both terms of the rate divided
// by what they have in common), so that no rate, however odd, is ever rounded: what GCRA's arrival time says, without
// its division. The time is Redis's own. A clock that goes back brings nothing and costs nothing. A denied request
// writes nothing. Requests of one pod are gathered ([batcher]) into script calls, one or two at a time; those of the same
// key are one ask of n tokens, of which the first g requests get one each. A denial is remembered in the pod until the
// next token is due, at most 500 ms; then one request asks, and the others are refused until it has its answer, at most
// 25 ms ([denials]). An allowance is never remembered. Without a valid key the client's address has a bucket, so that
// rate headers stand on every answer and guessing is slow; and how often a pod looks in PostgreSQL for keys that do not
// exist is bounded ([guesses]), for each address and for all of them.
//
// # Why no race resurrects a key
//
// PostgreSQL is the truth: a key's version rises in the transaction that changes it. Redis holds records: what was
// verified of a key, and its bucket. Three things make a record count.
//
// A ticket for each load: a random number. A pod that finds no verified record first puts a ticket there (or takes part
// in the load whose ticket is there already: it reads after that was put as well), then reads PostgreSQL, then writes the
// record only if the ticket is still in place. An announcement replaces or removes the ticket. So a load that
// read before a change was committed cannot write after it was announced, however long it slept; and should the
// tombstone be swept or lost meanwhile, the ticket is not there either. Tombstones therefore need not outlive
// anything: they spare loads. Neither clocks nor times to live enter into the argument. Announcements among themselves
// are ordered by version; revocation is final and always written; an active record that is announced replaces only a
// verified one, and over anything else merely takes the ticket away.
//
// A term for each life of Redis. A replica that takes over may lack the last tombstones and hold the active record
// instead; so may a server that restarts from disk. Records therefore carry the term in which they were verified, and
// only those of the present term count; others keep their bucket and are verified again at first use. Terms are agreed
// in PostgreSQL (table gate_terms): a server never seen before begins one, and a server of an earlier term does not come
// back while the later is in use. That the server at the other end is the one of the term costs nothing to know: the
// text of the script begins with the server's identity (run id and replication id), it was loaded over the very
// connection that told the identity, and script caches are neither replicated nor persisted (Redis 7 on, Valkey).
// Another server answers NOSCRIPT, nothing has run, and the pod finds out who it is. A pod that stays connected to a
// deposed master sees in PostgreSQL that the term is over.
//
// Trust that must be renewed. Redis may be unreachable for the pod that revokes and not for others, or pause and come
// back with what it held. So a pod believes Redis only for [Config.Trust] (2 s, by its own monotonic clock) since it
// last began to compare notes: read the term and the unannounced changes in PostgreSQL, announce the latter. An answer
// counts if the trust that its call was sent under still holds when it arrives; after one that came too late the keys
// are looked at again, and those that are valid keep the tokens that it granted; only what it did not grant is asked
// for anew. An announcement that cannot be written thus needs only to wait: after Trust and a margin every pod that
// believes Redis began to compare notes after the commit, saw the change, and brought it to Redis before it sent
// anything; every other pod asks PostgreSQL. For the same reason an announcement in a young term waits until trust in
// the earlier one has run out. That is when [Gate.Announce] returns nil, and a revocation is answered. A process that
// dies before it announced leaves an unannounced row, which the next comparison of any pod finds (twice a second).
//
// One thing is given up, on purpose: a pod that cannot reach PostgreSQL believes Redis as it stands ([trust].blind),
// since an outage of PostgreSQL must not refuse every request. Only if, at once, the revoking pod cannot reach Redis, a
// pod that serves cannot reach PostgreSQL, and no pod reaches both, does that pod accept the key until either heals.
//
// # Where it is kept
//
// Records are the fields of one hash, or on a Cluster of 256, one for each tag. A call from a script is as dear as a GET
// from outside, so a batch is one HMGET and one HSET, which writes the buckets that something was taken from; the whole is
// about 3 times a GET for each key, where a name and a write for each were 4 to 5. A record is 104 bytes and takes about
// 190 of memory. The key's identity is among them: each string that a script makes costs about the same
// at 56 bytes as at 104, so that to leave it out would save a tenth, and a pod that remembered identities would need an
// argument of its own. The number of hashes is part of the server's identity that a term is about: pods that keep records
// elsewhere do not see each other's announcements, so to each other they are on different servers.
//
// A field has no time to live. Instead each entry says when it was written, and a sweep deletes what is past: records an
// hour after their bucket was full again, tombstones after ten minutes, tickets, and what was not in PostgreSQL, after
// ten seconds. For the argument above it is one more way to lose an entry, such as eviction: what is gone is loaded
// again, a load whose ticket is gone does not count, a bucket that is gone was full. Finding an entry past and deleting it
// are one run of the script, so nothing can be written in between. That an entry is past means nothing to anybody else:
// a record is believed, a ticket honoured, and both are replaced by announcements, for as long as they are there, or a
// clock set back would bring to life what an announcement had passed over. Only that a key was not in PostgreSQL counts no
// longer than ten seconds, since creating a key is not announced. Each pod's beat looks at about 256 entries (half a
// millisecond; HSCAN bounds it, whatever the hash holds), and at up to 32 times as many while a tenth of them are past:
// a million of them are gone in a minute, a pod deletes more than it can load, and at most a tenth of the hash is
// garbage for long. Nothing ever reads or deletes a whole hash, but a hash that no pod has swept for a week expires.
//
// Buckets of addresses do have names and times to live of their own (a second, once they are full again): a flood makes
// them faster than anything else, from addresses that never come back, and Redis expires them better than a sweep could.
//
// # What a call costs the pod
//
// Calls are made on connections that the gate keeps for them ([lines]) and looks at again after a pause; a look at the
// pool before each was a system call of its own.
//
// # When something is away
//
// Redis away, slow, or not to be believed: the key is read from PostgreSQL, never from memory, at each request (requests
// that wait together are one read, but none is answered by a read that began before it came), and its bucket is this
// pod's share, burst and rate divided by the pods that were alive. examprep_gate_degraded says so. A failed call is not
// repeated: it may have charged. Redis is tried again after 100 ms, up to 1 s, by one goroutine while the others go on;
// it is used again as soon as notes were compared. PostgreSQL away: known keys pass, unknown ones are Unavailable. Both
// away: Unavailable, with RetryAfter. More requests than the queue holds: Unavailable at once. Redis emptied: every
// record is loaded again; buckets begin full.
//
// Redis must keep what it is given (maxmemory-policy noeviction, which the streams need as well): another policy evicts a
// hash as a whole, which is what emptying Redis is, above. A Redis that is full refuses to take tokens, which is a Redis
// away; it is swept all the same, since that only deletes. Lists that stand for small hashes must stay small
// (hash-max-listpack-value below 104, as it is by default), or a look-up would go through them. The client must not retry
// by itself ([ClientOptions]).
//
// It imports keys, go-redis and the Prometheus client; it must never import HTTP, Kubernetes or another domain.
package gate
