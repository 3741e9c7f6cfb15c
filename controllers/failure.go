package controllers

import (
	"errors"
	"time"
)

// blockedError says that a condition is False and what would help. It is the only kind of failure that a resource's
// owner can do something about; every other error is the operator's own trouble and is tried again with a pause.
type blockedError struct {
	// Condition is the type of the condition that is False because of it.
	Condition string
	Reason    string
	// Stalled is true when only a change to the resource, or to what it refers to, can help; otherwise it may pass by
	// itself, as when a ConfigMap of the same commit is still on its way.
	Stalled bool
	// RetryAfter is when to look again although nothing was seen to change; 0: at the next resync.
	RetryAfter time.Duration
	Err        error
}

func (e *blockedError) Error() string { return e.Err.Error() }
func (e *blockedError) Unwrap() error { return e.Err }

// stalled makes a blockedError that only a change can help.
func stalled(condition, reason string, err error) *blockedError {
	return &blockedError{Condition: condition, Reason: reason, Stalled: true, Err: err}
}

// waiting makes a blockedError that may pass by itself.
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

// errorIs says whether err's tree holds an error of type E.
func errorIs[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}
