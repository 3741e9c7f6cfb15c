// Package apierror has the error responses of the HTTP interface (docs/spec.md, parts 2 and 7).
//
// A handler returns an error. [From] is the only place that decides its response. A client's mistake is a 4xx that names the
// field. A dependency that is unavailable, overloaded or too slow is a 503 with Retry-After. Anything else is a 500, whose text
// stays in the log.
//
// It imports the domain packages for their error types, and nothing else of server/httpapi.
package apierror
