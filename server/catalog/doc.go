// Package catalog holds exams and their past papers: the domain types, the rules a publishable exam obeys, the canonical
// form that a reviewer seals, publishing into Postgres, and the snapshot that requests read.
//
// # Writing
//
// A Publisher turns an Exam into an immutable revision. One transaction takes the claim, stages the papers' revisions,
// flips the exam's pointer, writes the exam.content_updated event and notifies the pods; what is interrupted leaves the
// old revision whole. Content that is published already costs one SELECT and writes nothing.
//
// Revision numbers only grow. A pin (Options.Pin) publishes the content of an earlier revision under a new number: the
// history stays a log of what was served when, a reader may trust the higher number, and the pinned revision's papers
// are shared, not copied, so that a roll-back moves no question.
//
// The seal gate stands before the transaction, and does not ask about content that is served already: that is repaired,
// whoever is trusted by now. What got past it so becomes no new revision, should it turn out not to be served once the
// exam is locked: Publish starts again. A row's "sealed" tells of the digest alone; a signature is judged whenever
// something is to be published, pins included, and the judgement is stored nowhere.
//
// # Drift
//
// The SELECT that finds nothing to publish also finds what was edited in the database behind digests that stayed. Each
// immutable row has a fingerprint, a SHA-256 that PostgreSQL computed as it wrote the row; the SELECT computes those of the
// published revision again and compares them. That costs about a millisecond for five papers of forty questions. Triggers
// would be cheaper, but a restore, or a session that disables triggers, goes past them.
//
// What differs is compared with the declaration, to tell the paper, question and field, and is restored in one transaction
// under its digest and revision number: attempts are scored as before. exams.repairs counts, so that the pods, which cache
// by digest and by that number, read again. A pointer that was moved, or an exam that is missing, is published under a
// number above every one that was used. A Repair stays with the revision, so that an operator that was stopped reports it
// later. What a pin serves and nothing declares any longer cannot be restored: *DamagedError.
//
// # Reading
//
// A Snapshot keeps every exam's documents as finished JSON and the papers that are asked for in a cache bounded by
// bytes. It hears of a new revision by LISTEN and polls as a safety net; without Postgres it goes on serving what it
// has. Answer keys are stored, loaded and cached apart from what requests are rendered from.
//
// An exam whose row cannot be read keeps its last readable view, and all other exams are refreshed. A pod that never read
// such an exam starts without it and returns *UnavailableError for it. Each poll reads it again. The gauge
// examprep_catalog_unreadable_exams counts these exams, and those with a paper or an answer key that cannot be decoded.
//
// Before an attempt opens a paper revision, [Snapshot.MarkOpened] sets paper_revisions.opened. Pruning never deletes such
// a revision. Both lock its row, so a revision is pruned or opened, never both.
//
// # How it fails
//
// *ValidationError, *ClaimConflictError, *SealError, *RevisionNotFoundError, *DamagedError (writing) and *NotFoundError,
// *UnreadableError, *UnavailableError (reading); everything else is an error of Postgres, wrapped.
//
// It owns the tables of migrations/00006_catalog.sql and must never import fasthttp, controller-runtime or k8s.io packages, nor the
// packages keys, gate and attempts.
package catalog
