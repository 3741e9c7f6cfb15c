// Command fiber is a baseline of make bench: what a developer gets who puts fiber, a key check and
// github.com/go-redis/redis_rate together. For each request it looks at the key (form, check, SHA-256), reads the key's
// record from Redis so that a revoked key is refused at once, as the product does, or with -remember from its own memory,
// asks redis_rate, and sends a document with the limit's headers.
//
//	REDIS_URL=… fiber [-remember] ADDRESS FILE
//
// FILE holds header lines, an empty line, and the body. Records are strings "REQUESTS/SECONDS" under "bench:fiber:" and
// the hexadecimal hash. It is a module of its own, so that nobody who builds the product downloads fiber.
package main
