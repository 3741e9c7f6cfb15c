// Package ratelimit is a token bucket per key in Redis, shared by all pods. It knows neither API keys nor HTTP.
//
// # The bucket
//
// A bucket holds [Rate.Burst] tokens and gains Rate.Requests tokens each Rate.Period, continuously. It is full when it is
// first used. Redis stores the missing part, in units of 1/period of a token, and the time of the last write. A microsecond
// brings Rate.Requests units. All numbers are whole and below 2^53, so nothing is rounded. Only the clock of Redis counts.
// If it steps back, a bucket neither gains nor loses tokens. A bucket with another rate than before keeps the number of
// tokens that were taken. It gains tokens at the old rate up to its next use.
//
// # Calls
//
// Requests of a pod that wait together share one call of take.lua (package batch); n requests for one bucket ask for n
// tokens. A failed call is never repeated, because it can have taken the tokens. So within any time T a bucket grants at
// most burst × (1 + L) + T × rate tokens. L is how often Redis lost its data or was unreachable in T. They never fall
// short of one continuous bucket by more than one token.
//
// When a call fails, its requests and all that follow use buckets of the pod's own: burst and rate divided by the number of
// pods, at least one token. [Limiter.Run] tries Redis again four times a second. Local buckets outlive the outage, so a
// Redis that comes and goes does not fill them. A pod that alone cannot reach Redis grants its share in addition to the others.
//
// # Storage
//
// All buckets are fields of one hash, or of 256 hashes on a Cluster: a field of 12 bytes, a value of 28, about 90 bytes of
// Redis. [Limiter.Run] deletes buckets that are full again. A hash that no pod has used for a week expires. Redis needs
// maxmemory-policy noeviction, and clients need [ClientOptions].
//
//	bytes 0-7    time of the last write, µs of Redis' TIME, double
//	bytes 8-15   missing units of 1/period of a token, double
//	bytes 16-23  period, µs, in lowest terms with requests, double
//	bytes 24-27  requests, in lowest terms
package ratelimit
