// Package testkit gives tests what they share: databases, Redis servers, processes, proxies, receivers of webhooks, and
// ways to wait and to run parts in the background.
//
// Tests use the real servers at the addresses in EXAMPREP_TEST_DATABASE_URL and EXAMPREP_TEST_REDIS_URL, which `make test`
// sets. A test without a server fails; it is never skipped. A test that kills a server starts its own: [StartRedis],
// [StartPostgres].
//
// Everything that a function starts ends with the test. The package must not import a domain package, so that the tests
// of each domain can import it. Package apitest has the API in one process.
package testkit
