// Command mutants proves that tests fail when their subject is broken. hack/lint/mutants.txt lists mutants: small changes
// that break a rule of the product, each with the test that must fail. For each, the command runs that test on the changed
// code, by go test -overlay: the working tree stays as it is. A mutant that does not apply, does not compile, or is not
// caught fails the run, and so does a test that fails without a mutant. Go's build cache keeps nothing of a mutant. `make mutants`
// runs it.
//
// A record is a block of lines, and an empty line ends it. The lines after "-" are the old text, which occurs once in the
// file; those after "+" are the new text. A line that begins with # is a comment:
//
//	# A key is rotated twice.
//	file server/keys/change.go
//	- old.RevokedAt != nil || old.RotatedAt != nil {
//	+ old.RevokedAt != nil {
//	test ./server/keys TestAKeyIsRotatedOnce
//
// The test is a name or a regular expression, as go test -run takes it.
package main
