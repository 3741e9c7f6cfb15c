package browsertest

import (
	"net/http"
	"testing"

	"examprep.dev/server/keys"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

// invite invites a person on the page of the account.
func (w *window) invite(email, role string) {
	w.t.Helper()
	w.click("link", "Account")
	w.open("Invite member", "")
	w.fill("E-mail address", email)
	w.tick(role)
	w.click("button", "Invite member")
	w.see("No e-mail is sent. Give the person this address")
}

func TestAnInvitedPersonSeesTheSameKeys(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	ada := s.signedIn("Ada")
	ada.click("link", "Keys")
	key := ada.createKey("ci")
	ada.invite("bob@example.org", "Developer")

	bob := s.arrived("Bob")
	bob.see("invites you as developer")
	bob.click("button", "Accept")
	bob.hear("#ada now.")
	bob.click("link", "Keys")
	bob.see(key[:keys.PrefixLength])
	bob.createKey("from bob")
	ada.visit("/console/keys")
	ada.see("from bob")

	ada.click("link", "Account")
	ada.open("Change role", "bob@example.org")
	ada.tick("Viewer")
	ada.click("button", "Change role")
	ada.seeIn("bob@example.org", "Viewer")
	ada.click("link", "Activity")
	ada.seeIn("Role changed", "bob@example.org")
	ada.click("link", "Account")
	bob.expect("403")
	bob.open("Revoke", "from bob")
	bob.fill("Prefix", evaluate[string](bob, `document.querySelector('dialog .field code').innerText`))
	bob.click("button", "Revoke key")
	bob.see("The key was not revoked")
	bob.click("button", "Cancel")
	bob.missThing("button", "Revoke")

	ada.open("Remove", "bob@example.org")
	ada.click("button", "Remove")
	ada.miss("bob@example.org")
	bob.expect("401")
	bob.click("link", "Usage")
	bob.see("Sign in as")
	check.Equal(t, s.count("SELECT count(*) FROM account_members WHERE subject = 'bob'"), 0, "memberships of the person who was removed")
}

// inTwoAccounts opens a window in which Eve works in Ada's account. She has one of her own too, and each has a key named after its
// owner. The API refuses a request for the former account that arrives after the change, so none is under way then.
func (s *stage) inTwoAccounts(ada *window) *window {
	s.t.Helper()
	ada.click("link", "Keys")
	ada.createKey("of ada")
	ada.invite("eve@example.org", "Viewer")
	eve := s.arrived("Eve")
	eve.expect("403") // the overview of a person who has no account yet
	eve.click("button", "Create account")
	eve.click("link", "Keys")
	eve.createKey("of eve")
	eve.settle()
	eve.awaitLoad("/v1/developer/overview", func() { eve.click("link", "Overview") })
	eve.settle()
	eve.click("button", "Accept")
	eve.hear("#ada now.") // the name of Ada's account ends so
	eve.settle()
	return eve
}

func TestAPersonOfTwoAccountsWorksInOneAtATime(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	ada := s.signedIn("Ada")
	eve := s.inTwoAccounts(ada)
	eve.click("link", "Keys")
	eve.see("of ada")
	eve.miss("of eve")

	tab := eve.tab()
	tab.visit("/console/keys")
	tab.see("of ada")
	tab.settle()
	tab.open("Switch", "")
	tab.click("button", "eve@example.org")
	tab.hear("You work in eve@example.org now.")
	tab.click("link", "Keys")
	tab.see("of eve")
	eve.expect("409")
	eve.click("link", "Usage")
	eve.see("in another tab. Nothing was changed here.")
	eve.click("button", "Reload")
	eve.click("link", "Keys")
	eve.see("of eve")
}

// TestASwitchOfAccountDropsAResponseThatIsUnderWay: the keys of the former account arrive after the switch.
func TestASwitchOfAccountDropsAResponseThatIsUnderWay(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	eve := s.inTwoAccounts(s.signedIn("Ada"))
	const keysPath = "/v1/developer/keys"
	held, answer := s.delayAnswer(http.MethodGet, keysPath)
	eve.click("link", "Keys")
	testkit.Receive(t, held, "the keys of the former account")
	eve.open("Switch", "")
	eve.click("button", "eve@example.org")
	eve.hear("You work in eve@example.org now.")
	restore := s.refuseWhile(http.MethodGet, keysPath)
	eve.expect("503")
	eve.click("link", "Keys")
	eve.awaitLoad(keysPath, answer)
	eve.see("The keys could not be loaded")
	eve.miss("of ada")
	restore()
	eve.see("of eve")
	eve.miss("of ada")
}

// TestASwitchOfAccountIsNoSwitchInAnotherTab: the API refuses a request for the former account while the page does not know yet
// that the session has moved.
func TestASwitchOfAccountIsNoSwitchInAnotherTab(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	eve := s.inTwoAccounts(s.signedIn("Ada"))
	eve.expect("409")
	eve.click("link", "Account")
	held, answer := s.delayAnswer(http.MethodPut, "/v1/developer/session/account")
	eve.open("Switch", "")
	eve.click("button", "eve@example.org")
	testkit.Receive(t, held, "the session of the other account")
	eve.click("button", "Cancel")
	eve.click("link", "Keys")
	eve.see("in another tab. Nothing was changed here.")
	answer()
	eve.hear("You work in eve@example.org now.")
	eve.miss("in another tab. Nothing was changed here.")
}

// TestAPersonWhoGotAnAccountElsewhereCanChooseIt: each window has a session of its own, which began without an account.
func TestAPersonWhoGotAnAccountElsewhereCanChooseIt(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.signedIn("Ada").invite("eve@example.org", "Viewer")
	office, home, train := s.arrived("Eve"), s.arrived("Eve"), s.arrived("Eve")
	for _, w := range []*window{office, home, train} {
		w.expect("403") // the overview of a person who has no account yet
		w.see("You are signed in and work in no account yet.")
	}
	home.inspect("no-account")
	office.click("button", "Create account")
	office.hear("You work in eve@example.org now.")

	home.visit("/console/")
	home.see("Choose an account")
	home.missThing("button", "Create account")
	home.inspect("no-account-choose")
	home.click("button", "eve@example.org")
	home.hear("You work in eve@example.org now.")
	home.see("Three steps to your first result")

	train.expect("409")
	train.click("button", "Create account")
	train.see("The account was not created")
	train.click("button", "eve@example.org")
	train.hear("You work in eve@example.org now.")
	train.see("Three steps to your first result")
}
