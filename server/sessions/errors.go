package sessions

// RefusedError is a sign-in that cannot be accepted.
type RefusedError struct {
	Reason     string // for the log: one of a few fixed texts, without anything that was sent
	ByProvider bool   // the provider sent the person back without having signed them in
	Over       bool   // the sign-in is over, or another browser began it; a new one can succeed
}

func (e *RefusedError) Error() string { return "sign-in refused: " + e.Reason }

// ProviderError reports that the OpenID Connect provider is unreachable, overloaded, or does not accept this service's
// registration.
type ProviderError struct {
	Code string // for the log: an error code of RFC 6749, the meaning of an HTTP status, or "unreachable"
	Err  error
}

// Error leaves out the cause: a token endpoint's response can repeat the request's secrets.
func (e *ProviderError) Error() string {
	return "the OpenID Connect provider does not serve: " + e.Code
}

func (e *ProviderError) Unwrap() error { return e.Err }

// NoSessionError reports that a token has no session, or that the session has ended.
type NoSessionError struct{}

func (*NoSessionError) Error() string { return "no session, or it has run out" }
