package keys_test

import (
	"context"
	"slices"
	"sync"
	"testing"

	"examprep.dev/server/keys"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

func termOf(t *testing.T, store *keys.Store, server string) keys.Term {
	t.Helper()
	got, err := store.Term(t.Context(), server)
	check.NoError(t, err)
	return got
}

func TestTermsFollowTheRedisServer(t *testing.T) {
	t.Parallel()
	store, _, pool := newStore(t)
	term := func(server string) keys.Term { return termOf(t, store, server) }
	if got := term("a"); got.Number != 1 || !got.Current {
		t.Errorf("first: got %+v", got)
	}
	if got := term("a"); got.Number != 1 || !got.Current {
		t.Errorf("again: got %+v", got)
	}
	if got := term("b"); got.Number != 2 || !got.Current {
		t.Errorf("a new server begins a term: got %+v", got)
	}
	if got := term("a"); got.Current {
		t.Errorf("the old one is not current: got %+v", got)
	}
	testkit.Exec(t, pool, "UPDATE gate_terms SET confirmed_at = now() - interval '1 minute'")
	if got := term("a"); got.Number != 3 || !got.Current {
		t.Errorf("when nobody uses the new one, the old begins a term: got %+v", got)
	}
}

func TestOneTermBeginsHoweverManyFindTheServer(t *testing.T) {
	t.Parallel()
	store, _, _ := newStore(t)
	var group sync.WaitGroup
	numbers := make([]int64, 16)
	for i := range numbers {
		group.Go(func() {
			got, err := store.Term(context.Background(), "a")
			if err != nil {
				t.Error(err)
			}
			numbers[i] = got.Number
		})
	}
	group.Wait()
	for _, n := range numbers {
		if n != 1 {
			t.Fatalf("got %v", numbers)
		}
	}
}

func TestTermsThatNobodyAsksAboutAreForgotten(t *testing.T) {
	t.Parallel()
	store, _, pool := newStore(t)
	term := func(server string) keys.Term { return termOf(t, store, server) }
	age := func(server, by string) {
		t.Helper()
		tag, err := pool.Exec(t.Context(), "UPDATE gate_terms SET confirmed_at = now() - $2::interval WHERE server = $1", server, by)
		if err != nil || tag.RowsAffected() != 1 {
			t.Fatalf("%v, %v", tag, err)
		}
	}
	remembered := func() (servers []string) {
		t.Helper()
		err := pool.QueryRow(t.Context(), "SELECT array_agg(server ORDER BY term) FROM gate_terms").Scan(&servers)
		check.NoError(t, err)
		return servers
	}
	for _, server := range []string{"forgotten", "deposed, and still used", "recent", "present"} {
		term(server)
	}
	age("forgotten", "8 days")
	age("deposed, and still used", "8 days")
	age("recent", "6 days")
	if got := term("deposed, and still used"); got.Current {
		t.Errorf("a deposed server is taken for the one that counts: %+v", got)
	}
	if got := term("next"); got.Number != 5 || !got.Current {
		t.Errorf("a new server: %+v", got)
	}
	if got, want := remembered(), []string{"deposed, and still used", "recent", "present", "next"}; !slices.Equal(got, want) {
		t.Errorf("remembered: %q, want %q", got, want)
	}
	age("next", "8 days") // everybody was away
	if got := term("after a long pause"); got.Number != 6 || !got.Current {
		t.Errorf("after a long pause: %+v", got)
	}
	if got := term("one more"); got.Number != 7 || !got.Current {
		t.Errorf("numbers rise, whatever was forgotten: %+v", got)
	}
}
