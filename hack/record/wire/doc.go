// Package wire sends exact bytes over TCP and records the HTTP/1.x responses and how the connection ended.
//
// It uses no HTTP client, because a recording needs requests that no client sends, and responses as they were written:
// the spelling of header names, repeated lines and the status line. [Play] finds out whether a connection is still usable
// by sending one more request with a known x-request-id. So the outcome does not depend on a pause.
package wire
