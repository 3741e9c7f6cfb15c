// Package applyconfiguration finds the apply configuration of a kind of api/v1alpha1. controller-gen writes it, and the
// packages below it, from the types there; this file and the other doc.go are written by hand. Change the types and run
// `make generate` for the rest.
package applyconfiguration
