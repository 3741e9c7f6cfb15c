// Package controllers is the operator: one reconciler per kind of api/v1alpha1. Each turns resources into calls on the
// packages below server, and nothing else in the program knows Kubernetes.
//
// # A reconcile
//
// A reconcile reads its resource live (a new one as the finalizer's patch answers it), runs a short list of named steps
// over one scope, and ends with one status apply, made only when the status changed: a reconcile that finds everything as
// it should be writes nothing to the API server and costs one SELECT. Failures are typed (failure.go) and become
// conditions, an event and a time to come back in one place (scope.go).
//
// The status says what the published revision was read from (source.go). As long as that is the same, the questions are
// not read again, by whichever operator: what stands in the database is compared with what was published, and that is all.
//
// # What is cached
//
// The cache holds skeletons: metadata and the fields that indexes need (manager.go). Questions never enter it; neither
// do ConfigMaps, which are watched as metadata, by label, and read live. Memory therefore grows with the number of
// resources, not with the size of their papers.
//
// # How it fails
//
// What is wrong with a declaration is said in a condition that names the field; what was published before stays
// served. The database being away is tried again with a growing pause, at most [maxBackoff]; its errors go to the log,
// not into conditions, which people of other tenants may read. Deletion waits for the database, because the claim to
// an exam key, an endpoint or a tier must be given up there; it waits for nothing else.
//
// # What it tells
//
// Conditions and events tell a resource's owner, metrics (metrics.go) and traces (trace.go) whoever runs the operator. A
// trace is one reconcile and its statements to Postgres, drawn like every other process's; it names the resource and holds
// nothing of its content.
//
// It must never import server/httpapi.
package controllers
