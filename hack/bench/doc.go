// Command bench measures examprep against baselines that do the least that the same result can cost (make bench).
// docs/performance.md says how to run it and what each figure means; bench -help lists parts and flags.
//
// It starts a PostgreSQL and a Redis of its own (durable: fsync and an append-only file), builds the program, and starts
// `examprep api`, `examprep worker` and the baselines as processes. This process is the load generator. HTTP load comes from
// one goroutine over epoll, because the load generator takes its CPU time from what it measures.
//
// Machines drift by half over minutes, so no figure is asserted. Each is a ratio to a baseline of the same run, and the two are
// measured in turns: a figure is the median turn's, a ratio the median of the turns' ratios. Cost is CPU-µs per operation by
// process (/proc/PID/stat; PostgreSQL and nginx include their children).
//
// It fails when something does not start or answers wrongly, never because of a ratio. The product must never import it.
package main
