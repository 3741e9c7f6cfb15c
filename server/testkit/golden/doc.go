// Package golden compares the lists that other programs depend on, such as flags, metrics and routes, with files under
// testdata. A change of such a list fails a test until its file is rewritten, so each change shows in a diff.
//
// A test builds its list from the code itself, gives it a name and has Golden in its own:
//
//	func TestGoldenRoutes(t *testing.T) { golden.Compare(t, "routes", lines) }
//
// `make golden` rewrites all files.
package golden
