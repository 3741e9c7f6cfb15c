// Package read serves the published catalogue from an API pod's memory.
//
// A Snapshot has each exam's documents as finished JSON with a strong ETag. refreshLoop reads the exams that a notification
// of PostgreSQL names, and compares all revisions at each poll, in case a notification was lost. Each refresh publishes one
// immutable view. While PostgreSQL is unavailable, the Snapshot serves its last view. [Snapshot.Current] reports whether the view has
// all that this pod heard of.
//
// Papers, and prepared answer keys ([Keys]), are in caches that are bounded by bytes. Their keys have the digest of a
// revision, which never changes, and the number of the exam's repairs. All requests that miss an entry share one load. It
// does not end with any of them. Answer keys are loaded and cached apart from everything that requests are rendered from.
//
// # Unreadable rows
//
// An exam whose row cannot be read keeps its last readable view, and all other exams are refreshed. A pod that never read
// such an exam starts without it and returns *catalog.UnavailableError for it. A paper or an answer key that cannot be
// decoded is a *catalog.UnreadableError. Each poll reads the damaged rows again. The gauge examprep_catalog_unreadable_exams
// counts their exams.
//
// # Opened papers
//
// Before an attempt opens a paper revision, [Snapshot.MarkOpened] sets paper_revisions.opened. Pruning never deletes such a
// revision. Both lock its row, so a revision is pruned or opened, never both.
//
// It imports catalog and the generated queries, and must never import fasthttp, Kubernetes or another domain package.
package read
