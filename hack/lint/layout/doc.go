// Command layout checks how the code is divided: the rows of packages and what each may import (rows.go, imports.go), and the
// sizes of files, packages and types (sizes.go). It reads the Go files of the whole repository, whatever their build
// tags. `make lint` runs it.
//
// The file hack/lint/exceptions.txt lists what may break a rule for the time being, one a line with its reason:
//
//	file server/httpapi/lane_linux.go: goes with the event loop
//	package server/httpapi: its parts move to packages of their own
//	type server/gate.Gate: the Redis side moves to server/ratelimit
//	import server/catalog server/webhooks: publishing moves to catalog/publish
//
// An exception that nothing needs any more is a failure too.
//
// It also finds tests that pass a literal time to a limit (times.go): such a test can fail because the machine is slow. The
// file hack/lint/times.txt lists those that have a reason, with the number of lines; a number that is too high fails too:
//
//	server/httpapi/wire_test.go 2 the shortest time-out that the server accepts
package main
