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
// What somebody edits in the database, behind digests that stay as they are, is found by the same SELECT that finds
// nothing to publish. Each immutable row keeps a fingerprint, a SHA-256 that PostgreSQL computed as it wrote it; the
// SELECT has it compute the fingerprints of the published revision anew and compares them. That costs the server the
// reading and hashing of one exam's rows (about a millisecond for five papers of forty questions, less than
// fetching and validating the declaration costs the operator) and sends one boolean. Triggers would make it cheaper still
// and were left out: whoever edits a database by hand, restores a part of it or disables triggers for a moment goes past
// them. Having the rows sent, to hash them here, would cost a hundred times the traffic for the same answer.
//
// Only what differs is read and compared with the declaration, to tell which paper, question and field it was, and is
// restored in one transaction under its digest: attempts that point at the revision are scored by it as before. The number
// of the revision stays; exams.repairs counts, and the pods, who cache by digest and by that number, read anew. The
// repair's own exam.content_updated event is in the transaction, because what is served has changed. A pointer that was
// moved, or an exam that is gone, is published anew under a number above every one that was used. A Repair stays with the
// revision, so that an operator which is stopped before it told of it tells later. What nobody declares any more, under a
// pin, cannot be restored: *DamagedError.
//
// # Reading
//
// A Snapshot keeps every exam's documents as finished JSON and the papers that are asked for in a cache bounded by
// bytes. It hears of a new revision by LISTEN and polls as a safety net; without Postgres it goes on serving what it
// has. Answer keys are stored, loaded and cached apart from what requests are rendered from.
//
// # How it fails
//
// *ValidationError, *ClaimConflictError, *SealError, *RevisionNotFoundError, *DamagedError (writing) and *NotFoundError,
// *UnavailableError (reading); everything else is an error of Postgres, wrapped.
//
// It owns the tables of migrations/00006_catalog.sql and must never import fasthttp, controller-runtime or k8s.io packages, nor the
// packages keys, gate and attempts.
package catalog
