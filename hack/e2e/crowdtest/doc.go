// Package crowdtest is a crowd of learners that sits real papers over HTTP and keeps an account of what it was told, and
// the ways to hold that account against history and against the webhooks that arrived. It knows the service by its
// specification alone: papers.go reads the papers, sheet.go computes scores by rationals, and nothing of the program is
// imported but its published HTTP contract, so that no mistake can stand on both sides.
//
//	api      := crowdtest.NewAPI(url, key, contract)
//	crowd    := crowdtest.Start(ctx, api, crowdtest.Config{Clients: 50, Rate: 200, Papers: papers})
//	…something happens to the service…
//	kept     := crowd.Stop(t)      // every learner ends the paper it sits
//	crowd.CheckKept(t, receiver)   // history has every submission with its score, the receiver both of its events
//
// It fails by the test that calls it. A crowd's goroutines end with Stop or with its context.
package crowdtest
