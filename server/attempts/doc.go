// Package attempts is the mock-exam engine: it opens a paper into a timed attempt, pages its questions, takes one
// submission, has it marked (package marking), lists past attempts, and closes those whose time is over.
//
// # The life of an attempt
//
//	in_progress ──▶ submitted   answered in time (within the deadline and 60 s of grace)
//	            ──▶ expired     answered late, or with status "expired": scored; or closed by the sweep: not scored
//	            ──▶ abandoned   given up: recorded, never scored, no events
//
// All three are terminal. A paper of which no machine can mark any question has no score: its attempts end as the others do,
// with the first event only.
//
// An attempt points at the paper revision that it opened: it is paged and scored by that one, whatever is published later.
// That revision is marked before the attempt is stored, so that it is never pruned.
//
// All times of an attempt are PostgreSQL's: a pod reads them from Config.Now, and the sweep uses now().
//
// # What makes a submission durable
//
// [Service.Submit] returns a result after PostgreSQL has committed it (submit.go). State, answers, score and both events are
// one SQL statement, CloseAttempt or, for several callers, CloseAttempts (queries/attempts.sql): all are on disk, or nothing.
// This needs synchronous_commit, which is on by default. Exactly one of several racing submissions writes. The others, like every
// later retry, get its result if they have the same answers and status, else attempt_already_submitted.
//
// Opens, reads and submissions that wait share statements and commits (writer.go). Each caller has its own answer, deadline,
// error and trace.
// A batch of opens commits before it waits for the disk, so pods that open for one key do not wait for each other's disk
// writes. Its callers are answered after the write. Until then, history can show an attempt that a crash of PostgreSQL loses.
//
// # How it fails
//
// A client's mistake is an *[Error], and nothing was written. Every other error, such as *catalog.UnavailableError, is
// returned wrapped. The attempt is then either whole or untouched.
//
// # What it knows of learners
//
// A learner reference is replaced by [Service]'s HMAC before anything else sees it; it is in no table, log or error.
//
// It owns the tables attempts and attempt_counters, and imports neither an HTTP server nor anything of Kubernetes.
package attempts
