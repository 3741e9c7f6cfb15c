// Package httpapi is the HTTP interface (docs/spec.md, part 4). routes.go lists the routes, middleware.go the steps that
// every request passes, and each resource has a file of its own.
//
// # What every answer carries
//
// x-request-id, the four RateLimit headers and, unless it succeeds, the Error body as JSON. That holds also for what is
// refused below the level of a request (a broken request line, headers or a body that are too large, a client that is
// too slow, one connection too many), for unknown routes and for panics. The id is the caller's if its headers could be
// read, else a new one. Bodies are read behind the gate, by this package (body.go), but for the first byte of one
// that is not chunked: fasthttp waits for it, and if it never comes, the id is new too.
//
// # How it fails
//
// Handlers return errors; [Server] turns each into its answer in one place (from.go). A client's mistake is a 4xx
// that names the field. A dependency that is away is 503 with Retry-After; submit too may be sent again after it,
// because attempts answer a repeated submission from what the first one stored. Anything else is 500, logged with the
// request id, and its text stays here.
//
// # Bounds
//
// Connections, header and body size, the time to read, to handle and to write a request are bounded by [Config]; one
// that sends a byte a second is cut at the read time-out. Memory for a body is spent where a body is wanted, on clients
// whom the gate and the session let pass, only as the body arrives, and within one bound for all of them; nobody else's is
// waited for. A flood of refusals waits for its turn, while others are answered at once (pacing.go); what is read of one
// request, or of a refused body, ends whatever is sent. On shutdown the server finishes what is in hand within its grace
// (server.go waits for it, connection.go ends the connections); a connection that has said nothing has nothing in hand.
//
// # Privacy
//
// Neither paths nor queries nor bodies nor Authorization are logged, traced or measured: an operation is known by its
// name in routes.go. fasthttp recycles a request's memory when its handler returns, so what outlives the handler is
// copied.
//
// It imports the gate, the catalogue, the attempts, keys, sessions, webhooks, audit and postgres for their types and
// errors, and sees what works behind them through the interfaces of server.go and of each resource; it never imports
// controllers, nor a database's driver.
package httpapi
