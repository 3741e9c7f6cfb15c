// Package catalog defines exams and their past papers: the domain types, the rules for an exam that can be published, the
// canonical form whose digest a reviewer seals, and publishing to PostgreSQL. Package catalog/read serves what is published.
//
// # Writing
//
// A Publisher makes an immutable revision of a ValidExam. One transaction takes the claim, stores the papers' revisions, moves
// the exam's pointer, writes the exam.content_updated event and notifies the pods. If it is interrupted, the old revision
// stays. Publishing the same content again costs one SELECT and writes nothing.
//
// Only Validate makes a ValidExam, so nothing is validated twice and nothing else can be published or compared.
//
// Revision numbers only grow. RollBack publishes the content of an earlier revision under a new number: the history stays a
// log of the served content, and a reader can trust the higher number. The papers are shared, not copied.
//
// In production a paper needs a valid seal. The seal gate runs before the transaction and skips content that is published
// already: that is repaired, also if its verifier is no longer trusted. If such content turns out not to be published once
// the exam is locked, Publish starts again with the gate. The column "sealed" reports the digest only. A signature is
// verified at each publication, roll-backs included, and the result is not stored.
//
// # Drift
//
// Each immutable row has a fingerprint, a SHA-256 that PostgreSQL computed when it wrote the row. The SELECT that finds
// nothing to publish computes those of the published revision again, in about a millisecond for five papers of forty
// questions. So it finds edits that left the digests unchanged. Triggers would miss a restore and sessions without triggers.
//
// One transaction restores damaged rows under their digest and revision number: attempts are scored as before. A Repair
// names the paper, question and field, and stays with the revision. exams.repairs counts repairs, and the pods' caches have
// that number in their keys. A moved pointer or a missing exam gets a new number above all used ones. *DamagedError: a
// pinned revision is damaged and no declaration has its content.
//
// # Errors
//
// *ValidationError, ErrNotValidated, *ClaimConflictError, *SealError, *RevisionNotFoundError and *DamagedError (writing), *NotFoundError,
// *UnreadableError and *UnavailableError (catalog/read). All other errors are PostgreSQL's, wrapped.
//
// The package owns the tables of migrations/00006_catalog.sql. It must never import fasthttp, controller-runtime, k8s.io
// packages, keys, gate or attempts.
package catalog
