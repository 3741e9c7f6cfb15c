package sessions

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
)

const codeUnreachable = "unreachable"

// knownProvider is what discovery tells of a provider.
type knownProvider struct {
	issuer     string
	endpoint   oauth2.Endpoint
	keys       oidc.KeySet
	algorithms []string
}

// discover asks the provider. ctx is kept for fetching its keys later on.
func discover(ctx context.Context, issuer string) (*knownProvider, error) {
	found, err := oidc.NewProvider(ctx, issuer)
	if err != nil {
		return nil, fmt.Errorf("discover: %w", err)
	}
	var claims struct {
		Keys       string   `json:"jwks_uri"`
		Algorithms []string `json:"id_token_signing_alg_values_supported"`
	}
	if err := found.Claims(&claims); err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	// Never none, and never a shared secret: a public key must not be taken for one.
	asymmetric := []string{
		oidc.RS256, oidc.RS384, oidc.RS512, oidc.ES256, oidc.ES384, oidc.ES512, oidc.PS256, oidc.PS384, oidc.PS512, oidc.EdDSA,
	}
	return &knownProvider{
		issuer: issuer, endpoint: found.Endpoint(), keys: oidc.NewRemoteKeySet(ctx, claims.Keys),
		algorithms: slices.DeleteFunc(claims.Algorithms, func(a string) bool { return !slices.Contains(asymmetric, a) }),
	}, nil
}

// watchedKeys keeps why a signature could not be verified, which go-oidc's verifier passes on as text only.
type watchedKeys struct {
	oidc.KeySet

	err error
}

// VerifySignature is oidc.KeySet's.
func (k *watchedKeys) VerifySignature(ctx context.Context, jwt string) ([]byte, error) {
	payload, err := k.KeySet.VerifySignature(ctx, jwt)
	k.err = err
	return payload, err //nolint:wrapcheck // it is go-oidc that reads it
}

// explain tells keys that cannot be fetched from a token that does not hold. Of a remote key set's errors only the
// former wraps another.
func (k *watchedKeys) explain(err error) error {
	if cause := errors.Unwrap(k.err); cause != nil {
		return &ProviderError{Code: codeUnreachable, Err: cause}
	}
	if k.err != nil {
		return &RefusedError{Reason: "the ID token's signature does not hold"}
	}
	if _, expired := errors.AsType[*oidc.TokenExpiredError](err); expired {
		return &RefusedError{Reason: "the ID token has expired"}
	}
	return &RefusedError{Reason: "the ID token is malformed or its claims do not hold"}
}

// ofTokenEndpoint: only a code that is not taken (RFC 6749 §5.2, invalid_grant) is the person's failure.
func ofTokenEndpoint(err error) error {
	answer, answered := errors.AsType[*oauth2.RetrieveError](err)
	switch {
	case !answered:
		return &ProviderError{Code: codeUnreachable, Err: err}
	case answer.ErrorCode == "invalid_grant" && answer.Response.StatusCode < http.StatusInternalServerError:
		return &RefusedError{Reason: "the provider does not take the code"}
	case answer.ErrorCode == "":
		return &ProviderError{Code: answer.Response.Status, Err: err}
	default:
		return &ProviderError{Code: answer.ErrorCode, Err: err}
	}
}

// maxAccountName is server/keys' limit in bytes.
const maxAccountName = 200

// accountName is issuer#subject. A subject may have 255 characters: what does not fit, what names may not hold, and what
// looks like a hash itself is replaced by a hash of both.
func accountName(issuer, subject string) string {
	const mark = "sha256:"
	name := issuer + "#" + subject
	if len(name) <= maxAccountName && utf8.ValidString(name) && !strings.ContainsFunc(name, unicode.IsControl) &&
		!strings.HasPrefix(subject, mark) {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	tail := "#" + mark + hex.EncodeToString(sum[:])
	return strings.ToValidUTF8(issuer[:min(len(issuer), maxAccountName-len(tail))], "") + tail
}
