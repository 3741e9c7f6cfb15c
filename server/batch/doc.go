// Package batch groups concurrent calls, so that one round trip to a store serves all of them.
//
// A caller of [Batcher.Do] waits in a queue. A few workers take calls from its head and run the batch function for them. While
// all workers are busy the queue grows, and so do the batches. A call that finds a free worker starts at once, without a timer.
// In the steady state a call allocates nothing.
//
//   - Each call gets exactly one result or error, even if the batch function panics or forgets the call.
//   - A deadline holds for one caller. When its context ends, Do returns at once. A call that still waits leaves the queue and
//     never runs. A call that runs goes on, and its result is lost: [AbandonedError] reports which. The batch function has no
//     caller's context, so no caller can cancel the others.
//   - Fairness: the next batch begins with the call at the head of the queue. With [Config.Class], one class fills at most a
//     quarter of a batch while calls of another class wait.
//   - Exclusion: with [Config.Exclusive], calls with the same number never run in two batches at once. They can share a batch.
//   - Back-pressure: at most [Config.Queue] calls wait, of one class at most half as many. A further call gets a [*FullError] at once.
package batch
