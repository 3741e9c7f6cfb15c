// Package httpapi is the HTTP interface (docs/spec.md, parts 4 to 7).
//
// A resource has one handler type with its routes beside it: exams.go, attempts.go, and the packages developer and reference.
// Each request passes the middlewares of middleware.go. A handler returns an error, and package apierror decides its response.
//
// # On each response
//
// x-request-id, the four RateLimit headers and, unless it succeeds, the Error body. That holds for requests that are not readable
// HTTP, for one connection too many, for unknown routes and for panics. The id is the client's if its headers could be read.
//
// # Limits
//
// [Config] limits connections, headers, bodies, and the time to read, handle and write a request. Bodies are read behind the gate
// and the session, as they arrive, within one limit for all of them. The bodies of other requests are not waited for. A flood of
// refusals is slowed down (refusals.go). A server that stops finishes its requests within the grace (serve.go).
//
// # Privacy
//
// Paths, queries, bodies and Authorization are neither logged nor traced nor measured: an operation is known by its name. fasthttp
// reuses a request's memory after its handler has returned, so what is kept is copied.
//
// It uses the packages behind it through the interfaces of server.go and of developer. It never imports controllers nor a
// database's driver.
package httpapi
