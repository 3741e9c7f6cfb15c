package sessions

import (
	"testing"

	"examprep.dev/server/testkit/check"
)

// TestACookieOfOneKindIsNoneOfAnother: a kind has a key of its own, whatever the length of its values.
func TestACookieOfOneKindIsNoneOfAnother(t *testing.T) {
	t.Parallel()
	secret, value := make([]byte, 32), []byte("value")
	state, token := newCookieCipher(secret, "examprep sign-in state v1"), newCookieCipher(secret, "examprep session token v3")
	for name, of := range map[string]cookieCipher{"a sign-in's": state, "a session's": token} {
		_, asState := state.decrypt(of.encrypt(value))
		_, asToken := token.decrypt(of.encrypt(value))
		if asState == asToken {
			t.Errorf("%s is read as a sign-in's: %v, as a session's: %v", name, asState, asToken)
		}
		got, _ := of.decrypt(of.encrypt(value))
		check.Equal(t, string(got), string(value), "value")
	}
}
