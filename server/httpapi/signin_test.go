package httpapi_test

import (
	"net/http"
	"strings"
	"testing"

	"examprep.dev/server/httpapi"
	"examprep.dev/server/keys"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

func TestAPersonSignsInAtACertifiedProviderAndMakesAKey(t *testing.T) {
	t.Parallel()
	p := newPremises(t, httpapi.Config{}, nil)
	ada := p.visitor(t)
	address := ada.begin()
	query := address.Query()
	if query.Get("code_challenge_method") != "S256" || query.Get("response_type") != "code" || query.Get("nonce") == "" {
		t.Errorf("the provider is asked for %s", address)
	}
	back := ada.authenticate(address, "ada")
	check.Equal(t, back.Query().Get("iss"), p.provider.issuer, "issuer in %s", back)
	got := ada.call(back)
	if got.status != http.StatusSeeOther || got.header.Get("Location") != sessionPath {
		t.Fatalf("callback: %d %s", got.status, got.body)
	}
	if got.header.Get("Cache-Control") != "no-store" || got.header.Get("Referrer-Policy") != "no-referrer" {
		t.Errorf("the callback may be kept or told on: %v", got.header)
	}
	check.Equal(t, ada.cookie(signInCookie), "", "cookie of the ceremony")
	session := ada.get(sessionPath)
	if whose := session.document(t); whose["account"] != p.provider.issuer+"#ada" || whose["email"] != "ada@example.org" ||
		session.header.Get("Cache-Control") != "no-store" {
		t.Errorf("session: %v %v", whose, session.header)
	}
	made := ada.send(http.MethodPost, keysPath, `{"name":"ci"}`, map[string]string{"Origin": p.origin})
	key := textOf(made.document(t), "key")
	if _, valid := keys.Parse([]byte(key)); made.status != http.StatusCreated || !valid {
		t.Fatalf("create: %d %s", made.status, made.body)
	}
	check.Equal(t, p.call(http.MethodGet, "/v1/exam-prep/list", "", map[string]string{"Authorization": "Bearer " + key}).status, http.StatusOK, "status with the key")
}

func TestTheSameSubjectFindsItsAccountAgain(t *testing.T) {
	t.Parallel()
	p := newPremises(t, httpapi.Config{}, nil)
	home, work, bob := p.visitor(t), p.visitor(t), p.visitor(t)
	home.signIn("ada")
	if made := home.send(http.MethodPost, keysPath, `{"name":"ci"}`, nil); made.status != http.StatusCreated {
		t.Fatalf("create: %d", made.status)
	}
	p.provider.rotateKeys()
	work.signIn("ada")
	bob.signIn("unverified-bob")
	if home.account() != work.account() || work.account() == bob.account() {
		t.Errorf("accounts: %q, %q and %q", home.account(), work.account(), bob.account())
	}
	if list := work.get(keysPath); len(listOf(list.document(t), "keys")) != 1 {
		t.Errorf("the key is not there: %s", list.body)
	}
	if email, told := bob.get(sessionPath).document(t)["email"]; told {
		t.Errorf("an address that nobody verified is shown: %v", email)
	}
	check.Equal(t, testkit.Get[int](p.t, p.Pool, "SELECT count(*) FROM account_identities"), 2, "accounts")
}

func TestASessionPlantedBeforeTheSignInIsNotAdopted(t *testing.T) {
	t.Parallel()
	p := newPremises(t, httpapi.Config{}, nil)
	thief, ada := p.visitor(t), p.visitor(t)
	thief.signIn("thief")
	planted := thief.cookie(sessionCookie)
	for _, planted := range []string{planted, strings.Repeat("A", 43)} {
		ada.plant(sessionCookie, planted)
		ada.signIn("ada")
		if ada.cookie(sessionCookie) == planted || !strings.HasSuffix(ada.account(), "#ada") {
			t.Errorf("the planted cookie became a session of %q", ada.account())
		}
		thief.plant(sessionCookie, planted)
		check.Equal(t, thief.account(), "", "the planted session lives on; its account")
	}
}

func TestWhoDeclinesAtTheProviderIsToldSo(t *testing.T) {
	t.Parallel()
	p := newPremises(t, httpapi.Config{}, nil)
	ada := p.visitor(t)
	back := ada.decline(ada.begin())
	if back.Query().Get("error") != "access_denied" {
		t.Fatalf("sent back with %s", back)
	}
	got := ada.call(back)
	if detail := textOf(got.document(t), "detail"); got.status != http.StatusUnauthorized || !strings.Contains(detail, "You were not signed in") {
		t.Errorf("%d %s", got.status, got.body)
	}
	if ada.cookie(sessionCookie) != "" || testkit.Get[int](p.t, p.Pool, "SELECT count(*) FROM account_identities") != 0 {
		t.Error("something was gained")
	}
	ada.signIn("ada") // who then wants to, can
}
