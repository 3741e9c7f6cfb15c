// Package attempts is the mock-exam engine: it opens a paper into a timed attempt, pages its questions, takes one
// submission, scores it, lists past attempts and closes those whose time is over.
//
// # The life of an attempt
//
//	in_progress ──▶ submitted   answered in time (within the deadline and 60 s of grace)
//	            ──▶ expired     answered late, or with status "expired": scored; or closed by the sweep: not scored
//	            ──▶ abandoned   given up: recorded, never scored, no events
//
// All three are terminal. An attempt points at the paper revision that it opened: it is paged and scored by that one,
// whatever is published later. That revision is marked before the attempt is stored, so that it is never pruned. A
// submission is one SQL statement: state, answers, score and both events are on disk together or not at all, and of any
// number of racing submissions exactly one writes. The others, like every later retry, are answered from what it wrote: the
// same answers and status get the stored result again, others attempt_already_submitted. Opens, reads and submissions that
// wait share statements and commits (writer.go); each caller has its own answer, deadline, error and trace.
//
// All times of an attempt are PostgreSQL's: a pod reads them from Config.Now, and the sweep uses now().
//
// # How it is scored
//
// Marks are counted in millionths as integers, so no sum drifts. A paper's maximum is what the questions that a machine
// can mark would earn; annulled questions are right for everyone; unmarkable ones count in neither score nor maximum.
// Rules finer than docs/spec.md, part 2, are stated in the code: grade.go for partial credit, pass mark and scaled
// scores, answers.go for what an answer may look like.
//
// # How it fails
//
// A client's mistake is an *[Error] with one of the codes below, and nothing was written. Everything else (Postgres
// away, *catalog.UnavailableError, *catalog.UnreadableError) comes back wrapped: the caller saw no answer, and the attempt
// is either whole or untouched.
//
// # What it knows of learners
//
// A learner reference is replaced by [Service]'s HMAC before anything else sees it; it is in no table, log or error.
//
// It owns the tables attempts and attempt_counters, and imports neither an HTTP server nor anything of Kubernetes.
package attempts
