package httpapi_test

import (
	"net/http"
	"net/url"
	"sync"
	"testing"
	"time"

	"examprep.dev/server/httpapi"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

func (b *browser) signOut(query string) {
	b.t.Helper()
	b.send(http.MethodDelete, sessionPath+query, "", nil).expect(b.t, http.StatusNoContent, "sign-out")
	check.Equal(b.t, b.cookie(sessionCookie), "", "cookie after the sign-out")
}

func TestASessionThatNobodyUsesEnds(t *testing.T) {
	t.Parallel()
	p := newPremises(t, httpapi.Config{}, nil)
	ada := p.visitor(t)
	ada.signIn("ada")
	for _, age := range []time.Duration{sessionIdle - time.Minute, 2 * (sessionIdle - time.Minute)} {
		p.Ahead.Store(int64(age))
		if ada.account() == "" {
			t.Fatalf("the session ended after %s, less than %s after a use", age, sessionIdle)
		}
	}
	p.Ahead.Store(int64(3*sessionIdle - time.Minute))
	check.Equal(t, ada.account(), "", "the session lives on; its account")
}

func TestASessionEndsInTheEndHoweverBusy(t *testing.T) {
	t.Parallel()
	p := newPremises(t, httpapi.Config{}, nil)
	ada := p.visitor(t)
	ada.signIn("ada")
	for age := time.Duration(0); age < sessionLifetime-time.Minute; age += sessionIdle / 2 {
		p.Ahead.Store(int64(age))
		if ada.account() == "" {
			t.Fatalf("the session ended after %s", age)
		}
	}
	p.Ahead.Store(int64(sessionLifetime))
	check.Equal(t, ada.account(), "", "the session lives on; its account")
	ada.send(http.MethodPost, keysPath, `{"name":"late"}`, nil).expect(t, http.StatusUnauthorized, "a key is made")
}

func TestASignOutEndsTheSessionOnTheServer(t *testing.T) {
	t.Parallel()
	p := newPremises(t, httpapi.Config{}, nil)
	home, work := p.visitor(t), p.visitor(t)
	home.signIn("ada")
	work.signIn("ada")
	kept := home.cookie(sessionCookie)
	home.signOut("")
	home.plant(sessionCookie, kept)
	check.Equal(t, home.account(), "", "the kept cookie is still good; its account")
	home.send(http.MethodDelete, sessionPath, "", nil).expect(t, http.StatusUnauthorized, "a second time")
	if work.account() == "" {
		t.Error("the other session ended as well")
	}
}

func TestASignOutEverywhereEndsAllSessionsOfTheAccountAlone(t *testing.T) {
	t.Parallel()
	p := newPremises(t, httpapi.Config{}, nil)
	home, work, bob := p.visitor(t), p.visitor(t), p.visitor(t)
	home.signIn("ada")
	work.signIn("ada")
	bob.signIn("bob")
	home.signOut("?everywhere=true")
	check.Equal(t, work.account(), "", "a session lives on; its account")
	if bob.account() == "" {
		t.Error("another's session ended")
	}
	work.signIn("ada")
	if work.account() == "" {
		t.Error("nobody can sign in any more")
	}
}

func TestARequestInHandDoesNotBringItsSessionBack(t *testing.T) {
	t.Parallel()
	p := newPremises(t, httpapi.Config{}, nil)
	home, work := p.visitor(t), p.visitor(t)
	home.signIn("ada")
	work.signIn("ada")
	keys := testkit.Begin(t, p.Pool, "LOCK TABLE api_keys IN SHARE MODE") // new ones are not written until it ends
	answered := make(chan int, 1)
	go func() { answered <- work.send(http.MethodPost, keysPath, `{"name":"in hand"}`, nil).status }()
	testkit.Eventually(t, "the request waits for the table", func() bool {
		var waiting bool
		err := p.Pool.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND relation = 'api_keys'::regclass)`).Scan(&waiting)
		return err == nil && waiting
	})
	home.signOut("?everywhere=true")
	testkit.Release(t, keys)
	check.Equal(t, <-answered, http.StatusCreated, "what had been let in")
	if work.account() != "" || testkit.Get[int](p.t, p.Pool, "SELECT count(*) FROM sessions") != 0 {
		t.Error("the session came back")
	}
}

func TestEverySessionIsFoundByTheNextSignOutEverywhere(t *testing.T) {
	t.Parallel()
	p := newPremises(t, httpapi.Config{}, nil)
	const many = 8
	var visitors [many]*browser
	var backs [many]*url.URL
	for i := range many {
		visitors[i] = p.visitor(t)
		backs[i] = visitors[i].authenticate(visitors[i].begin(), "ada")
	}
	ada := p.visitor(t)
	ada.signIn("ada")
	var all sync.WaitGroup
	for i, v := range visitors {
		all.Go(func() {
			v.call(backs[i]).expect(t, http.StatusSeeOther, "callback")
		})
	}
	all.Go(func() { ada.signOut("?everywhere=true") })
	all.Wait()
	ada.signIn("ada")
	ada.signOut("?everywhere=true")
	for _, v := range visitors {
		check.Equal(t, v.account(), "", "a session was missed; its account")
	}
	check.Equal(t, testkit.Get[int](p.t, p.Pool, "SELECT count(*) FROM sessions"), 0, "stored sessions")
}
