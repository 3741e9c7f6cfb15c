package sessions

// RefusedError is a sign-in that cannot be accepted.
type RefusedError struct {
	// Reason is for the log: a fixed text that holds nothing that was sent.
	Reason string
	// ByProvider says that the provider sent the person back without having signed them in, mostly because they did not
	// want to.
	ByProvider bool
}

func (e *RefusedError) Error() string { return "sign-in refused: " + e.Reason }

// ProviderError says that the OpenID Connect provider is unreachable, overloaded, or does not accept this service's
// registration. It says nothing about the person who signs in.
type ProviderError struct {
	// Code is for the log: an error code of RFC 6749, the meaning of an HTTP status, or "unreachable".
	Code string
	Err  error
}

// Error leaves out the cause: a token endpoint's answer may hold what was sent to it.
func (e *ProviderError) Error() string {
	return "the OpenID Connect provider does not serve: " + e.Code
}

func (e *ProviderError) Unwrap() error { return e.Err }

// NoSessionError says that a token belongs to no living session.
type NoSessionError struct{}

func (*NoSessionError) Error() string { return "no session, or it has run out" }
