package controllers

import (
	"errors"
	"time"
)

// blockedError makes a condition False, with advice. Only a resource's owner can fix it; every other error is the operator's
// own and is retried with backoff.
type blockedError struct {
	// Condition is the type of the condition that is False because of it.
	Condition string
	Reason    string
	// Stalled is true if only a change to the resource or to its references can help. It is false if the failure can pass
	// without one, for example when the rest of a commit is applied.
	Stalled bool
	// RetryAfter is the time until the next reconcile if no change is seen; 0: until the next resync.
	RetryAfter time.Duration
	Err        error
}

func (e *blockedError) Error() string { return e.Err.Error() }
func (e *blockedError) Unwrap() error { return e.Err }

// stalled returns a blockedError that only a change can fix.
func stalled(condition, reason string, err error) *blockedError {
	return &blockedError{Condition: condition, Reason: reason, Stalled: true, Err: err}
}

// waiting returns a blockedError that can pass without a change.
func waiting(condition, reason string, err error) *blockedError {
	return &blockedError{Condition: condition, Reason: reason, RetryAfter: waitingRetry, Err: err}
}

// described gives an error another text for its owner to read and keeps its type.
type described struct {
	text string
	err  error
}

func (e *described) Error() string { return e.text }
func (e *described) Unwrap() error { return e.err }

// asBlocked returns the blockedError in err's tree, or nil.
func asBlocked(err error) *blockedError {
	blocked, _ := errors.AsType[*blockedError](err)
	return blocked
}

// errorIs reports whether err's tree contains an error of type E.
func errorIs[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}
