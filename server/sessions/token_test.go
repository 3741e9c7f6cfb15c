package sessions_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/oauth2-proxy/mockoidc"

	"examprep.dev/server/sessions"
)

// forge changes the claims of the ID tokens of a provider's token endpoint and signs them with the provider's own key, so
// only the claim is wrong.
func forge(change func(claims map[string]any)) func(*mockoidc.MockOIDC) error {
	return func(provider *mockoidc.MockOIDC) error {
		keyID, err := provider.Keypair.KeyID()
		if err != nil {
			return err
		}
		signer, err := jose.NewSigner(jose.SigningKey{
			Algorithm: jose.RS256, Key: jose.JSONWebKey{Key: provider.Keypair.PrivateKey, KeyID: keyID},
		}, nil)
		if err != nil {
			return err
		}
		return provider.AddMiddleware(func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if !strings.HasSuffix(r.URL.Path, "/token") {
					next.ServeHTTP(w, r)
					return
				}
				answer := httptest.NewRecorder()
				next.ServeHTTP(answer, r)
				if answer.Code != http.StatusOK {
					w.Header().Set("Content-Type", answer.Header().Get("Content-Type"))
					w.WriteHeader(answer.Code)
					_, _ = w.Write(answer.Body.Bytes())
					return
				}
				body, err := resign(signer, answer.Body.Bytes(), change)
				if err != nil {
					http.Error(w, err.Error(), http.StatusInternalServerError)
					return
				}
				w.Header().Set("Content-Type", "application/json")
				_, _ = w.Write(body)
			})
		})
	}
}

func resign(signer jose.Signer, answer []byte, change func(map[string]any)) ([]byte, error) {
	var fields map[string]any
	if err := json.NewDecoder(bytes.NewReader(answer)).Decode(&fields); err != nil {
		return nil, err
	}
	raw, _ := fields["id_token"].(string)
	token, err := jose.ParseSignedCompact(raw, []jose.SignatureAlgorithm{jose.RS256})
	if err != nil {
		return nil, err
	}
	var claims map[string]any
	if err := json.Unmarshal(token.UnsafePayloadWithoutVerification(), &claims); err != nil {
		return nil, err
	}
	change(claims)
	payload, err := json.Marshal(claims)
	if err != nil {
		return nil, err
	}
	signed, err := signer.Sign(payload)
	if err != nil {
		return nil, err
	}
	if fields["id_token"], err = signed.CompactSerialize(); err != nil {
		return nil, err
	}
	return json.Marshal(fields)
}

func audience(claims map[string]any) []any {
	list, _ := claims["aud"].([]any)
	return list
}

func toOthers(claims map[string]any) { claims["aud"] = append(audience(claims), "another service") }

func TestEachClaimOfTheTokenMustHold(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change  func(claims map[string]any)
		refused bool
	}{
		"as it was":            {func(map[string]any) {}, false},
		"for another audience": {func(claims map[string]any) { claims["aud"] = "another service" }, true},
		"by another issuer":    {func(claims map[string]any) { claims["iss"] = "https://issuer.example" }, true},
		"with another's nonce": {func(claims map[string]any) { claims["nonce"] = "forged" }, true},
		"without a nonce":      {func(claims map[string]any) { delete(claims, "nonce") }, true},
		"that has run out":     {func(claims map[string]any) { claims["exp"] = time.Now().Add(-time.Hour).Unix() }, true},
		"that never runs out":  {func(claims map[string]any) { delete(claims, "exp") }, true},
		"for others too":       {toOthers, true},
		"for others too, issued to us": {func(claims map[string]any) {
			toOthers(claims)
			claims["azp"] = audience(claims)[0]
		}, false},
		"issued to another":        {func(claims map[string]any) { claims["azp"] = "another service" }, true},
		"about nobody":             {func(claims map[string]any) { claims["sub"] = "" }, true},
		"without a subject":        {func(claims map[string]any) { delete(claims, "sub") }, true},
		"about no ASCII":           {func(claims map[string]any) { claims["sub"] = "ad\u00e4" }, true},
		"about U+0000":             {func(claims map[string]any) { claims["sub"] = "ada\u0000" }, true},
		"about too long a name":    {func(claims map[string]any) { claims["sub"] = strings.Repeat("s", 256) }, true},
		"whose subject is no text": {func(claims map[string]any) { claims["sub"] = 7 }, true},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, forge(c.change))
			cookie, back := f.returned(t)
			_, err := f.signIn.Complete(t.Context(), cookie, back)
			refusal, refused := errors.AsType[*sessions.RefusedError](err)
			if refused != c.refused || err != nil && !refused {
				t.Errorf("got %v (refusal %v), want refused = %v", err, refusal, c.refused)
			}
		})
	}
}
