// Command dev runs examprep on one machine, for real, and runs its tests:
//
//	dev up                   starts everything (make dev)
//	dev down [tests]         stops everything (make dev-down), or only the servers for tests
//	dev clean                stops everything and deletes databases that are not in .dev (make clean)
//	dev deps FOR             installs the Debian packages that a make target needs (make deps)
//	dev servers [PACKAGE…]   starts the servers for tests, as far as packages need them (make test-servers)
//	dev test COMMAND…        starts the servers that a command needs, and runs it (make test)
//	dev npm PROGRAM…         runs a program of the packages that hack/npm pins (make lint)
//
// up keeps its state in .dev, so a second start takes seconds and finds its data. The data plane comes first: it is
// built, published to and asked, and the request that worked is printed, while the control plane, whose programs may
// have to be built, follows. .dev/env is written twice: once with what the data plane serves, and again, ending in
// READY=1, when the samples are Ready in the cluster. The program hack/dev/seed runs while the control plane starts, and
// again after that: it gives the account dev something to show in the console. Its failure is printed and ends nothing.
// One process supervises everything and stops it in reverse order at SIGINT, SIGTERM or when something cannot be repaired;
// nothing outlives it.
//
// The servers for tests stay. Two holders (dev hold) own them, in processes of their own: one PostgreSQL and Redis, the
// other the API server, which is started only for packages that need it. Addresses and passwords are chosen once and kept,
// so Go can cache results. .dev/test.env has them; server/testkit/testenv reads it. A holder restarts nothing: when one
// of its servers dies, it stops, the runs that use it end, and the next run starts another. It also stops when its files
// in .dev/test are deleted.
//
// A command fails with the reason on standard error and status 1; dev test and dev npm fail with the command's own
// status. dev imports nothing of the product but builds and runs it as a user does, and it depends on little: it must be
// compiled before anything else can begin.
package main
