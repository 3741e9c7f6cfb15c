package webhooks

import "fmt"

// ValidationError names a field of an endpoint and what is wrong with it.
type ValidationError struct{ Field, Detail string }

func (e *ValidationError) Error() string { return e.Field + " " + e.Detail }

// NotFoundError says that there is no such endpoint or delivery, or that it is somebody else's.
type NotFoundError struct{ ID string }

func (e *NotFoundError) Error() string {
	return fmt.Sprintf("no webhook endpoint or delivery %s", e.ID)
}

// ManagedError says that an endpoint is declared by a resource and can be changed only there.
type ManagedError struct{ Owner string }

func (e *ManagedError) Error() string { return "the endpoint is declared by " + e.Owner }

// LimitError says that there are as many as may be: of an account's endpoints, or (ByHand) of the deliveries to an
// endpoint that somebody asked for and that are pending. Nothing was changed.
type LimitError struct {
	Most   int
	ByHand bool
}

func (e *LimitError) Error() string {
	if e.ByHand {
		return fmt.Sprintf("%d tests and redeliveries to the endpoint are pending already, and no more are allowed", e.Most)
	}
	return fmt.Sprintf("the account has %d endpoints already, and no more are allowed", e.Most)
}

// BusyError says that the endpoint's deliveries are being sent again by another request at this moment. Nothing was
// changed; a little later it can be.
type BusyError struct{}

func (e *BusyError) Error() string { return "deliveries to the endpoint are being sent again already" }

// DisabledError says that nothing is sent to an endpoint, and why it was turned off.
type DisabledError struct{ Reason string }

func (e *DisabledError) Error() string { return "the endpoint is disabled: " + e.Reason }
