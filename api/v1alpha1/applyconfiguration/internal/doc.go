// Package internal holds the schema by which apply configurations are read from managed fields. controller-gen writes it
// from the types of api/v1alpha1 (`make generate`); this file alone is written by hand.
package internal
