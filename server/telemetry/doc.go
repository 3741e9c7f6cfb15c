// Package telemetry sets up JSON logs, Prometheus metrics and OpenTelemetry traces, and two small HTTP servers (health on
// 8081, metrics and runbooks on 9090). Every process uses it.
//
// Only the setup can fail: on an unknown log level, an invalid OTEL_ variable, or a port that is in use. Later failures
// do not reach the caller: while the collector is unreachable, spans are dropped and the process continues.
//
// It imports no other package of this module: the caller passes the collectors, and the function that reports whether the
// process is ready. No API key, learner ID or header of a client reaches this package.
package telemetry
