package sessions

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"
	"golang.org/x/oauth2"

	"examprep.dev/server/testkit/check"
)

// go-oidc accepts two issuer names in the tokens of this one provider. The test calls identify itself, because no test
// server can have the provider's address.
func TestAPersonHasOneIdentityByWhateverNameTheProviderGoes(t *testing.T) {
	t.Parallel()
	const issuer, short = "https://accounts.google.com", "accounts.google.com"
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	check.NoError(t, err)
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: key}, nil)
	check.NoError(t, err)
	for _, name := range []string{issuer, short} {
		claims, err := json.Marshal(map[string]any{
			"iss": name, "sub": "ada", "aud": "client", "nonce": "nonce", "exp": time.Now().Add(time.Hour).Unix(),
			"email": "ada@example.org", "email_verified": true,
		})
		check.NoError(t, err)
		signed, err := signer.Sign(claims)
		check.NoError(t, err)
		token, err := signed.CompactSerialize()
		check.NoError(t, err)
		endpoint := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(map[string]string{"access_token": "a", "token_type": "Bearer", "id_token": token})
		}))
		t.Cleanup(endpoint.Close)
		provider := &provider{
			issuer: issuer, client: oauth2.Config{ClientID: "client", Endpoint: oauth2.Endpoint{TokenURL: endpoint.URL}},
			authStyles: []oauth2.AuthStyle{oauth2.AuthStyleInParams},
			keys:       &oidc.StaticKeySet{PublicKeys: []crypto.PublicKey{key.Public()}}, tokenConfig: oidc.Config{ClientID: "client"},
		}
		who, err := provider.identify(t.Context(), signInState{Issuer: issuer, Nonce: "nonce"}, Callback{Code: "code"})
		if err != nil || who.Issuer != issuer || who.Subject != "ada" {
			t.Errorf("as %s: %+v, %v", name, who, err)
		}
	}
}

func TestRequestsToTheProviderHaveTimeouts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ given, want [2]time.Duration }{
		{[2]time.Duration{}, [2]time.Duration{5 * time.Second, 2 * time.Second}},
		{[2]time.Duration{time.Hour, time.Minute}, [2]time.Duration{time.Hour, time.Minute}},
	} {
		signIn := NewSignIn(Provider{Timeout: c.given[0], UserInfoTimeout: c.given[1]}, make([]byte, 32), nil, nil)
		got := [2]time.Duration{signIn.http.Timeout, signIn.registration.UserInfoTimeout}
		check.Equal(t, got, c.want, "time-outs with %v", c.given)
	}
}
