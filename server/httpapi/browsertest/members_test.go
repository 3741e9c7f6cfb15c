package browsertest

import (
	"testing"

	"examprep.dev/server/keys"
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

	bob := s.signedIn("Bob")
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

func TestAPersonOfTwoAccountsWorksInOneAtATime(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	ada := s.signedIn("Ada")
	ada.click("link", "Keys")
	ada.createKey("of ada")
	ada.invite("eve@example.org", "Viewer")
	eve := s.signedIn("Eve")
	eve.expect("403") // the overview of a person who has no account yet
	eve.click("button", "Create account")
	eve.click("link", "Keys")
	eve.createKey("of eve")
	eve.click("link", "Overview")
	eve.click("button", "Accept")
	eve.hear("#ada now.") // the name of Ada's account ends so
	eve.click("link", "Keys")
	eve.see("of ada")
	eve.miss("of eve")

	tab := eve.tab()
	tab.visit("/console/keys")
	tab.see("of ada")
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
