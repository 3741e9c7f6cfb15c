// Package testenv tells tests where their servers are: in the environment, or else in the file .dev/test.env of the
// checkout, which `make test-servers` and `make test` write. So `go test` works in an editor once the servers run.
//
// Go's test cache notices changes of both: results stay cached while addresses and passwords stay the same.
//
// [Get] fails the test, never skips it, when a variable is in neither. The package imports only the standard library.
package testenv
