// Package endpoint has what every operation of the HTTP interface is written with: a [Route] names it, a [Handler] answers a
// [Request] or returns the error that package apierror turns into its response.
//
// fasthttp reuses a request's memory after the handler has returned, so a handler copies what it keeps.
package endpoint
