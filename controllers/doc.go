// Package controllers is the operator: one reconciler per kind of api/v1alpha1. Each turns resources into calls on the
// packages below server, and nothing else in the program knows Kubernetes.
//
// # A reconcile
//
// A reconcile reads its resource from the API server; for a new one, the response to the finalizer's patch is enough. Then
// it runs a short list of named steps over one scope, and ends with one status apply if the status changed. If nothing
// changed, a reconcile writes nothing to the API server and costs one SELECT. Failures are typed (failure.go). One place
// turns them into conditions, an event and the time of the next reconcile (scope.go).
//
// The status has a digest of the published revision's sources (source.go). While the digest is unchanged, no operator reads
// the questions again: it only checks that the stored revision is intact.
//
// # What is cached
//
// The cache holds skeletons: metadata and the fields that indexes need (manager.go). It never holds questions, and
// only the metadata of ConfigMaps, which are watched by label and read live. Memory therefore grows with the number of
// resources, not with the size of their papers.
//
// # How it fails
//
// An invalid declaration gets a condition that names the field, and the published revision stays served. While PostgreSQL
// is unavailable, reconciles are retried with exponential backoff up to [maxBackoff]. The error is logged and not put into
// a condition, because other tenants can read conditions. Deletion waits for the database, because the claim to
// an exam key, an endpoint or a tier must be given up there; it waits for nothing else.
//
// # What it reports
//
// Conditions and events are for a resource's owner; metrics (metrics.go) and traces (trace.go) are for the platform's
// operators. A trace is one reconcile and its PostgreSQL statements, sampled as in every other process. It names the
// resource and contains nothing of its spec.
//
// It must never import server/httpapi.
package controllers
