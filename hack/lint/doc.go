// Package lint pins the programs that check the code: golangci-lint, configured in .golangci.yaml, and govulncheck. They
// are tools of a module of their own, so their requirements never mix with those of the product. This project's own
// checks are in the folders layout (imports, sizes, times in tests) and prose (wording); mutants checks the tests.
package lint
