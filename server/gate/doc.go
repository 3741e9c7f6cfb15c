// Package gate decides for each request whose API key it carries and whether it may pass.
//
// [Gate.Check] has three steps:
//
//  1. The key is looked up in the pod's memory (package keys/directory). An unknown key is refused at once.
//  2. A token is taken from the key's bucket in Redis (package ratelimit). A request without a valid key takes one from the
//     bucket of its client address: the IPv4 address, or the /64 of an IPv6 address, since a client commands all of that.
//  3. The answer becomes a [Decision], with all that the rate headers need.
//
// A signed-in developer has a bucket of their own, for all their sessions ([Gate.CheckSession]). So a flood behind the same
// address does not stop them from revoking a key.
//
// Files of the console take no token: [Gate.Peek] reads the bucket of their client's address for the rate headers.
//
// An empty bucket is answered from memory until its next token, at most 500 ms. A grant is never remembered.
//
// # Failures
//
//	Redis unreachable       each pod grants its share of the limits
//	PostgreSQL unreachable  known keys pass while Redis has no newer change of keys; other keys get 503 and cost a token of the address
//	both unreachable        503 from 2 s after the last renewal of the lease on
//	too many requests wait  503
//
// # Tests
//
//	gate_test        decisions; what OnUse is called with
//	tier_test        tiers hold from the answer on
//	revocation_test  keys are created and revoked under load; a model of checks and revocations
//	cut_off_test     a pod loses PostgreSQL, Redis or both
//	outage_test      Redis is killed, full or empty
//	exactness_test   grants are those of a continuous bucket
//	flood_test       floods of invalid keys and of one key
//	denied_test      denials from memory
//	soak_test        random faults with production's limits; sentinel_test: Sentinels (make soak)
//
// The directory says why a revoked key stays revoked. The package imports keys, its directory and ratelimit. It must never
// import HTTP, Kubernetes or another domain.
package gate
