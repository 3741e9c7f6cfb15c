// Package telemetry is how a process tells of itself: JSON logs, Prometheus metrics, OpenTelemetry traces, and the two
// small HTTP servers that carry them (health on 8081, metrics on 9090). Every process uses the same.
//
// It fails only when it is set up: an unknown log level, an OTEL_ variable that cannot be followed, a port that is taken.
// Later trouble (a collector that is away) never reaches the caller: spans are dropped, the process works on.
//
// It imports no other package of this module: what is measured, and what "ready" means, is injected. Nothing here ever
// sees a key, a learner id or a header of a client.
package telemetry
