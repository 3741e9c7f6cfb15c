package webhooks

import "fmt"

// ValidationError reports an invalid field.
type ValidationError struct{ Field, Detail string }

func (e *ValidationError) Error() string { return e.Field + " " + e.Detail }

// NotFoundError reports an endpoint or delivery that does not exist or belongs to another account.
type NotFoundError struct{ ID string }

func (e *NotFoundError) Error() string {
	return fmt.Sprintf("no webhook endpoint or delivery %s", e.ID)
}

// ManagedError reports an endpoint that a resource declares. It can be changed only there.
type ManagedError struct{ Owner string }

func (e *ManagedError) Error() string { return "the endpoint is declared by " + e.Owner }

// LimitError reports an account that has the maximum number of endpoints.
type LimitError struct{ Max int }

func (e *LimitError) Error() string {
	return fmt.Sprintf("the account has reached its limit of %d endpoints", e.Max)
}

// DisabledError reports that nothing is sent to an endpoint, and why it was disabled.
type DisabledError struct{ Reason string }

func (e *DisabledError) Error() string { return "the endpoint is disabled: " + e.Reason }
