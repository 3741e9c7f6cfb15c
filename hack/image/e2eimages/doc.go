// Command e2eimages assembles what an end-to-end test on a cluster needs beside the product, as image archives that any
// container runtime imports: PostgreSQL and Redis from this machine's own packages, and the webhook receiver from its
// binary. It needs neither a registry nor a container engine.
//
//	go -C hack/image run ./e2eimages -out DIR -receiver BINARY
//
// writes DIR/postgres.tar, DIR/redis.tar and DIR/receiver.tar, named by -prefix. An image holds the programs, every
// shared library that ldd finds for them and what they read at run time, and nothing else of the machine. That of
// PostgreSQL understands the variables of the official image (POSTGRES_USER, POSTGRES_PASSWORD, POSTGRES_DB, PGDATA), and
// that of Redis starts by the same command, so one manifest runs either.
//
// It fails when the machine has no PostgreSQL or Redis (Debian: postgresql, redis-server), or when ldd misses a library.
package main
