// Package lint pins the programs that check the code: golangci-lint, configured in .golangci.yaml, and govulncheck. They
// are tools of a module of their own, so that their requirements never meet those of the product.
package lint
