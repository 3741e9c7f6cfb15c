package browsertest

import (
	"strings"
	"testing"

	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

func TestAnEndedSessionLeadsToSignInAndBackToItsPage(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	office, home := s.signedIn("Ada"), s.signedIn("Ada")
	home.expect("401")
	home.click("link", "Account")
	home.click("button", "Sign out everywhere")
	home.see("Your session has ended.")
	check.Equal(t, s.count("SELECT count(*) FROM sessions"), 0, "sessions")
	office.expect("401")
	office.click("link", "Usage")
	office.click("button", "Ada")
	office.see("Requests a day")
	check.Equal(t, evaluate[string](office, `location.pathname`), "/console/usage", "page after the sign-in")
}

// TestASignOutShowsItsPageThoughAReadingIsRefusedMeanwhile: the session has ended, and the page does not know it yet.
func TestASignOutShowsItsPageThoughAReadingIsRefusedMeanwhile(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	ada := s.signedIn("Ada")
	ada.expect("401")
	signIns := func() int { return strings.Count(s.asked.String(), "/v1/developer/sign-in\n") }
	before := signIns()
	_, answer := s.delayAnswer("DELETE", "/v1/developer/session")
	ada.click("button", "Sign out")
	testkit.Eventually(t, "the session has ended", func() bool { return s.count("SELECT count(*) FROM sessions") == 0 })
	ada.click("link", "Keys")
	testkit.Eventually(t, "the keys are refused", func() bool { return ada.complains("401") })
	answer()
	ada.see("Your session has ended.")
	check.Equal(t, signIns(), before, "visits of the sign-in")
}

func TestAPageNeedsASignInAndComesAfterIt(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	ada := s.window()
	ada.visit("/console/activity?action=key.create")
	ada.click("button", "Ada")
	ada.see("No entry has this action.")
	check.Equal(t, evaluate[string](ada, `location.pathname + location.search`), "/console/activity?action=key.create", "page after the sign-in")
	ada.click("button", "Sign out")
	ada.see("Your session has ended.")
	ada.click("link", "Sign in")
	ada.see("Sign in as")
}

func TestAnOutageIsShownAndWaitedOut(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	ada := s.signedIn("Ada")
	ada.expect("503")
	restore := s.refuseWhile("GET", "/v1/developer/keys")
	ada.click("link", "Keys")
	ada.see("The keys could not be loaded")
	ada.see("Copy delivery id")
	restore()
	ada.see("This account has no keys yet.")
}
