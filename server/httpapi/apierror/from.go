package apierror

import (
	"errors"
	"fmt"

	"github.com/valyala/fasthttp"

	"examprep.dev/server/accounts"
	"examprep.dev/server/attempts"
	"examprep.dev/server/batch"
	"examprep.dev/server/catalog"
	"examprep.dev/server/keys"
	"examprep.dev/server/postgres"
	"examprep.dev/server/sessions"
	"examprep.dev/server/usage"
	"examprep.dev/server/webhooks"
)

// From returns the response of an error: a 4xx for a client's mistake, a 503 for a dependency that is unavailable, overloaded
// or too slow, else a 500. A change of a key that is committed but not confirmed is a 503 too: it may be repeated.
func From(err error) *Error {
	var own *Error
	var mistake *attempts.Error
	var invalidKey *keys.InvalidError
	var invalidWebhook *webhooks.ValidationError
	switch {
	case errors.As(err, &own):
		return own
	case errors.As(err, &mistake):
		return fromAttempts(mistake)
	case is[*catalog.NotFoundError](err):
		return ExamNotFound()
	case is[*keys.UnknownKeyError](err), is[*webhooks.NotFoundError](err), is[*accounts.NotFoundError](err):
		return NotFound()
	case errors.As(err, &invalidKey):
		return Invalid(Field{invalidKey.Field, invalidKey.Detail})
	case errors.As(err, &invalidWebhook):
		return Invalid(Field{invalidWebhook.Field, invalidWebhook.Detail})
	case is[*usage.TooManyRowsError](err):
		return Invalid(Field{"from", fmt.Sprintf(
			"and to: the result has more than %d rows; request fewer days or a single key_prefix", usage.MaxRows)})
	case is[*sessions.NoSessionError](err):
		return notSignedIn("Sign in first: GET /v1/developer/sign-in")
	case is[*sessions.RefusedError](err):
		return notSignedIn("The sign-in was not accepted. Begin again: GET /v1/developer/sign-in")
	case is[*catalog.UnavailableError](err), is[*sessions.ProviderError](err), is[*keys.UnconfirmedError](err), postgres.Unavailable(err),
		is[*batch.FullError](err), is[*batch.ClosedError](err):
		return Unavailable()
	default:
		return fromAccounts(err)
	}
}

// fromAccounts returns 403 or 400 for what accounts refuse, and the answer of fromConflict for every other error.
func fromAccounts(err error) *Error {
	var invalid *accounts.InvalidError
	switch {
	case is[*accounts.ForbiddenError](err):
		return New(fasthttp.StatusForbidden, CodeForbidden, "Only an owner of the account can do this.")
	case is[*accounts.NoAccountError](err):
		return New(fasthttp.StatusForbidden, CodeForbidden, "You are a member of no account: ask an owner of one for an invitation.")
	case errors.As(err, &invalid):
		return Invalid(Field{invalid.Field, invalid.Detail})
	default:
		return fromConflict(err)
	}
}

// notSignedIn returns the 401 of a request that needs a session. No browser asks for a password because of its challenge.
func notSignedIn(detail string) *Error {
	return &Error{
		Status: fasthttp.StatusUnauthorized, Code: CodeUnauthorized, Detail: detail,
		Challenge: `Cookie realm="developer", cookie-name="__Host-examprep_session"`,
	}
}

func is[T error](err error) bool {
	_, ok := errors.AsType[T](err)
	return ok
}

// fromAttempts returns 404 for a missing resource, and 400 for every other mistake of a client.
func fromAttempts(mistake *attempts.Error) *Error {
	answer := &Error{Status: fasthttp.StatusBadRequest, Code: mistake.Code, Detail: mistake.Detail}
	switch mistake.Code {
	case attempts.CodeExamNotFound, attempts.CodePaperNotFound, attempts.CodeAttemptNotFound:
		answer.Status = fasthttp.StatusNotFound
	}
	for _, field := range mistake.Fields {
		answer.Fields = append(answer.Fields, Field{field.Field, field.Detail})
	}
	return answer
}

// fromConflict returns 409 for what the present state forbids, and 500 for every other error.
func fromConflict(err error) *Error {
	answer := &Error{Status: fasthttp.StatusConflict, Code: CodeConflict}
	var keyLimit *keys.LimitError
	var conflict *accounts.ConflictError
	var webhookLimit *webhooks.LimitError
	var managed *webhooks.ManagedError
	var disabled *webhooks.DisabledError
	say := func(format string, args ...any) { answer.Detail = fmt.Sprintf(format, args...) }
	switch {
	case is[*keys.RetiredKeyError](err):
		say("The key is revoked, has expired or was rotated already.")
	case errors.As(err, &keyLimit) && keyLimit.Rotated:
		say("%d rotated keys are still valid. Wait until one expires, or rotate with overlap_seconds 0.", keyLimit.Most)
	case keyLimit != nil:
		say("The account has %d active keys, and no more are allowed; revoke one first.", keyLimit.Most)
	case is[*keys.FullError](err):
		say("The service has no room for another valid key. Tell its operator. A rotation with overlap_seconds 0 is possible.")
	case errors.As(err, &conflict):
		say("%s", conflict.Detail)
	case is[*accounts.LimitError](err):
		say("The account has %d members and invitations, and no more are allowed; remove one first.", accounts.MaxPeople)
	case errors.As(err, &webhookLimit):
		say("The account has %d webhooks, and no more are allowed; delete one first.", webhookLimit.Max)
	case errors.As(err, &managed):
		say("The webhook is declared by a resource of the cluster; change it there.")
		answer.ManagedBy = managed.Owner
	case errors.As(err, &disabled):
		say("The webhook is disabled, and nothing is sent to it: %s.", disabled.Reason)
	default:
		return Internal()
	}
	return answer
}
