package accounts

import "fmt"

// InvalidError reports a mistake in a value.
type InvalidError struct {
	Field  string // account, email, role, subject or limit
	Detail string // the rule that the value breaks
}

func (e *InvalidError) Error() string { return e.Field + ": " + e.Detail }

// NotFoundError reports a member or an invitation that does not exist, that is another account's, or that is offered to another person.
type NotFoundError struct{}

func (*NotFoundError) Error() string { return "there is no such member or invitation" }

// UnknownError reports that no account has the name.
type UnknownError struct{ Name string }

func (e *UnknownError) Error() string { return fmt.Sprintf("there is no account %q", e.Name) }

// ForbiddenError reports that the person's role does not allow the change.
type ForbiddenError struct{}

func (*ForbiddenError) Error() string { return "only an owner of the account can do this" }

// ConflictError reports that the state of the account forbids the change.
type ConflictError struct{ Detail string } // a sentence

func (e *ConflictError) Error() string { return e.Detail }

// LimitError reports an account with [MaxPeople] members and invitations.
type LimitError struct{}

func (*LimitError) Error() string {
	return fmt.Sprintf("the account has %d members and invitations, the most it can have", MaxPeople)
}

// NoAccountError reports a person without an account, where sign-in makes none.
type NoAccountError struct{}

func (*NoAccountError) Error() string { return "the person is a member of no account" }
