package sessions_test

import (
	"errors"
	"testing"
	"time"

	"examprep.dev/server/sessions"
	"examprep.dev/server/testkit/check"
)

func TestATokenOfAnotherMakerIsRefusedWithoutALookUp(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	made, err := f.store.Create(t.Context(), sessions.Session{AccountID: f.account(t)})
	check.NoError(t, err)
	stranger := sessions.NewStore(f.pool, []byte("another secret of at least thirty-two bytes"), time.Hour, time.Hour, time.Now)
	foreign, err := stranger.Create(t.Context(), sessions.Session{AccountID: f.account(t)})
	check.NoError(t, err)
	for name, c := range map[string]struct {
		token string
		want  bool
	}{
		"made here":             {made, true},
		"of another secret":     {foreign, false},
		"empty":                 {"", false},
		"a character":           {made[:1], false},
		"shorter than random":   {made[:42], false},
		"cut short":             {made[:len(made)-1], false},
		"without its check":     {made[:43], false},
		"with another check":    {made[:43] + foreign[43:], false},
		"another random part":   {foreign[:43] + made[43:], false},
		"with something behind": {made + "A", false},
	} {
		check.Equal(t, f.store.Authentic([]byte(c.token)), c.want, "%s: authentic", name)
		_, err := f.store.Lookup(t.Context(), c.token)
		if none, refused := errors.AsType[*sessions.NoSessionError](err); refused == c.want {
			t.Errorf("%s: %v, %v", name, err, none)
		}
	}
}
