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
//
// # Tests
//
// Tests of the wire run in bubbles of package synctest: on connections in memory, without a database, with production's time
// limits. The others run the API on PostgreSQL and Redis, with time limits that do not act.
//
//	bubble_test.go         the server in a bubble
//	harness_test.go        the API on PostgreSQL and Redis; every response is compared with the contract
//	stand_in_test.go       stand-ins for the parts behind the handlers
//	stage_test.go          the API with a signed-in developer; requests_test.go has a request for each operation
//
//	hostile_test.go        a table of hostile requests
//	wire_test.go           pipelines, Expect, and the log of connections; packets_test.go has cut packets
//	bodies_test.go         reading of bodies and their memory
//	times_test.go          time limits of reading, handling, writing and idling
//	stop_test.go           stopping; stop_accept_test.go has connections that arrive meanwhile
//	flood_test.go          delayed refusals, and too many connections
//	server_fuzz_test.go    arbitrary bytes on a socket
//
//	contract_test.go       each status of each operation; limits_test.go has the limits of each field
//	operations_test.go     the operations of exams and attempts; operations_fuzz_test.go has arbitrary requests
//	statuses_test.go       refusals and their texts; methods_test.go has methods, HEAD and OPTIONS
//	examlist_test.go       the order of the list of exams
//	attempts_test.go       attempts; concurrency_test.go and linearizable_test.go have many at once
//	documents_test.go      documents that cannot be read, conditional requests, large documents
//	docs_test.go           the reference page and the examples of the docs
//	usage_test.go          usage of keys; overview_test.go has the overview of an account
//	console_pages_test.go  the console's document and files, and the pages that a sign-in leads to
//	middleware_test.go     middlewares; gatespan_test.go has traces
//	gate_*_test.go         the API without PostgreSQL or Redis
//	signin_*_test.go, session*_test.go, developer*_test.go, keys_test.go, webhooks_test.go, deliveries_test.go,
//	recover_test.go, audit_test.go
//	                       what developers do
package httpapi
