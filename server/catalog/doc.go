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
// # Reading
//
// A Snapshot keeps every exam's documents as finished JSON and the papers that are asked for in a cache bounded by
// bytes. It hears of a new revision by LISTEN and polls as a safety net; without Postgres it goes on serving what it
// has. Answer keys are stored, loaded and cached apart from what requests are rendered from.
//
// # How it fails
//
// *ValidationError, *ClaimConflictError, *SealError, *RevisionNotFoundError (writing) and *NotFoundError,
// *UnavailableError (reading); everything else is an error of Postgres, wrapped.
//
// It owns the tables of migration 00003 and must never import fasthttp, controller-runtime or k8s.io packages, nor the
// packages keys, gate and attempts.
package catalog
