// Package v1alpha1 holds the types of examprep.dev/v1alpha1 with every field optional, to declare by server-side apply
// just the fields that one owns. controller-gen writes it from the types of api/v1alpha1 (`make generate`); this file
// alone is written by hand.
package v1alpha1
