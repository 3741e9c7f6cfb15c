// Package play plays the script on a stage and returns the recording.
//
// Fast groups are played one after the other, and slow ones at the same time. Each connection comes from a loopback address of
// its own, so the rate limit of one client address never meets two exchanges. A recording leaves out the remaining requests of
// a session, which depend on time. Responses are normalised at the end, in the script's order.
package play
