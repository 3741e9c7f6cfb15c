package httpapi

import (
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/valyala/fasthttp"

	"examprep.dev/server/attempts"
	"examprep.dev/server/catalog"
	"examprep.dev/server/keys"
	"examprep.dev/server/postgres"
	"examprep.dev/server/sessions"
	"examprep.dev/server/usage"
	"examprep.dev/server/webhooks"
)

// from is the one place where an error becomes an answer: a client's mistake a 4xx, a dependency that is unavailable,
// overloaded or too slow a 503, anything else a 500.
func from(err error) *apiError {
	var own *apiError
	var mistake *attempts.Error
	var invalidKey *keys.InvalidError
	var invalidWebhook *webhooks.ValidationError
	var refused *sessions.RefusedError
	switch {
	case errors.As(err, &own):
		return own
	case errors.As(err, &mistake):
		return fromAttempts(mistake)
	case is[*keys.UnknownKeyError](err), is[*webhooks.NotFoundError](err):
		return noSuchResource()
	case errors.As(err, &invalidKey):
		return validationFailed(fieldError{invalidKey.Field, invalidKey.Detail})
	case errors.As(err, &invalidWebhook):
		return validationFailed(fieldError{invalidWebhook.Field, invalidWebhook.Detail})
	case is[*usage.TooManyRowsError](err):
		return validationFailed(fieldError{"from", fmt.Sprintf(
			"and to span more than %d counts of a key and a day; ask for fewer days, or for one key_prefix", usage.MaxRows)})
	case is[*sessions.NoSessionError](err):
		return notSignedIn("Sign in first: GET /v1/developer/sign-in")
	case errors.As(err, &refused) && refused.ByProvider:
		return notSignedIn("You were not signed in at the provider. Begin again: GET /v1/developer/sign-in")
	case refused != nil:
		return notSignedIn("The sign-in was not accepted. Begin again: GET /v1/developer/sign-in")
	case isUnavailable(err):
		return unavailable()
	}
	if answer := fromConflict(err); answer != nil {
		return answer
	}
	return internalError()
}

// isUnavailable reports whether the same request may succeed in a moment. That holds also for a change of a key that is
// committed but not confirmed.
func isUnavailable(err error) bool {
	return is[*catalog.UnavailableError](err) || is[*sessions.ProviderError](err) ||
		is[*keys.UnconfirmedError](err) || postgres.Away(err)
}

func is[T error](err error) bool {
	_, ok := errors.AsType[T](err)
	return ok
}

// fromAttempts returns 404 for a missing resource, and 400 for every other mistake of a client.
func fromAttempts(mistake *attempts.Error) *apiError {
	answer := &apiError{status: fasthttp.StatusBadRequest, code: mistake.Code, detail: mistake.Detail}
	switch mistake.Code {
	case attempts.CodeExamNotFound, attempts.CodePaperNotFound, attempts.CodeAttemptNotFound:
		answer.status = fasthttp.StatusNotFound
	}
	for _, field := range mistake.Fields {
		answer.fields = append(answer.fields, fieldError(field))
	}
	return answer
}

// fromConflict is nil for an error that is not a conflict.
func fromConflict(err error) *apiError {
	answer := &apiError{status: fasthttp.StatusConflict, code: codeConflict}
	var keyLimit *keys.LimitError
	var webhookLimit *webhooks.LimitError
	var managed *webhooks.ManagedError
	var disabled *webhooks.DisabledError
	switch {
	case is[*keys.RetiredKeyError](err):
		answer.detail = "The key is revoked, has expired or was rotated already."
	case errors.As(err, &keyLimit) && keyLimit.Rotated:
		answer.detail = fmt.Sprintf("%d rotated keys live on already; let an overlap end, or rotate without one.", keyLimit.Most)
	case keyLimit != nil:
		answer.detail = fmt.Sprintf("The account has %d live keys, and no more are allowed; revoke one first.", keyLimit.Most)
	case errors.As(err, &webhookLimit) && webhookLimit.ByHand:
		answer.detail = fmt.Sprintf("%d tests and redeliveries of the webhook are pending, and no more are allowed; wait until some have ended.", webhookLimit.Most)
	case webhookLimit != nil:
		answer.detail = fmt.Sprintf("The account has %d webhooks, and no more are allowed; delete one first.", webhookLimit.Most)
	case errors.As(err, &managed):
		answer.detail, answer.managedBy = "The webhook is declared by a resource of the cluster; change it there.", managed.Owner
	case errors.As(err, &disabled):
		answer.detail = "The webhook is disabled, and nothing is sent to it: " + disabled.Reason + "."
	case is[*webhooks.BusyError](err):
		answer.detail = "Deliveries of the webhook are being sent again by another request; ask once more when it has ended."
	default:
		return nil
	}
	return answer
}

// fromRead is the answer to a request that could not be read.
func fromRead(err error) *apiError {
	var headerTooLarge *fasthttp.ErrSmallBuffer
	var network net.Error
	switch {
	case errors.Is(err, fasthttp.ErrBodyTooLarge), errors.Is(err, errReadEnough):
		return &apiError{status: fasthttp.StatusRequestEntityTooLarge, code: codePayloadTooLarge, detail: "The request body is too large."}
	case errors.As(err, &headerTooLarge):
		return &apiError{status: fasthttp.StatusRequestHeaderFieldsTooLarge, code: codeHeaderFieldTooLarge, detail: "Request line and headers are too large."}
	case errors.As(err, &network) && network.Timeout():
		return &apiError{status: fasthttp.StatusRequestTimeout, code: codeRequestTimeout, detail: "The request did not arrive in time."}
	case errors.Is(err, errNoBodyMemory):
		return unavailable()
	case errors.Is(err, errBodyCut), errors.Is(err, io.ErrUnexpectedEOF):
		return badRequest("The request broke off.")
	default:
		return badRequest("The request is not readable HTTP.")
	}
}
