// Package e2e holds the proofs that the whole is what it says, on a running `make dev` stack with nothing replaced:
// resources go in by kubectl, requests go in by HTTP, and what must come out is computed here from the input files
// alone. `make e2e` runs it:
//
//	go test -tags e2e -count 1 -timeout 2h -v ./hack/e2e [-args -data DIR -duration 60s -clients 50 -seed 1]
//
// e2e_test.go is the table of contents; each proof has a file of its own. Nothing of the program is imported but its
// published contract: crowdtest reads the papers, computes the scores and keeps the account of what clients were told.
// The package cluster has the proofs that need a cluster and the chart.
//
// It fails with what was expected and what was seen. It needs `make dev` to be Ready (.dev/env), kubectl, and
// bin/examprep, and leaves behind nothing but the attempts that it made.
package e2e
