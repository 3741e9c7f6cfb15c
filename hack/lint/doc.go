// Package lint pins the programs that check the code: golangci-lint, configured in .golangci.yaml, and govulncheck. They
// are tools of a module of their own, so that their requirements never meet those of the product. The folder layout has
// the check of our own, of imports and sizes.
package lint
