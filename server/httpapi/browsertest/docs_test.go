package browsertest

import (
	"testing"

	"examprep.dev/server/testkit/check"
)

// TestTheReferenceIsAccessible checks the API reference for violations of WCAG 2.2 AA, in both colour schemes and widths.
func TestTheReferenceIsAccessible(t *testing.T) {
	t.Parallel()
	w := newStage(t).window()
	w.visit("/docs")
	w.see("Rate limits")
	for _, l := range looks() {
		w.resize(l.width, l.height, l.scheme)
		for _, place := range []string{"content", "openMockPaper", "submitMockAttempt", "tag-webhooks"} {
			evaluate[bool](w, `(document.getElementById("`+place+`").scrollIntoView({behavior: "instant"}), true)`)
			w.picture("docs-" + place + "-" + l.name)
		}
		w.accessible("docs " + l.name)
	}
	evaluate[bool](w, `(scrollTo({top: 0, behavior: "instant"}), true)`)
	w.click("button", "Menu")
	w.picture("docs-menu-360-dark")
	w.accessible("docs, contents")
}

// TestTheReferenceShowsSamplesInOneLanguage: a reader chooses a language once, for all operations and the next visit.
func TestTheReferenceShowsSamplesInOneLanguage(t *testing.T) {
	t.Parallel()
	w := newStage(t).window()
	w.visit("/docs")
	visible := func(language string) int {
		return evaluate[int](w, `[...document.querySelectorAll('.sample[data-language="`+language+`"]')].filter(e => e.checkVisibility()).length`)
	}
	all := evaluate[int](w, `document.querySelectorAll('.sample[data-language="Go"]').length`)
	if all < 30 {
		t.Fatalf("got %d samples in Go, want one of each operation", all)
	}
	for _, c := range []struct{ button, language string }{{"TypeScript", "TypeScript"}, {"curl", "Shell"}, {"Go", "Go"}} {
		w.click("button", c.button)
		for _, language := range []string{"Shell", "TypeScript", "Go"} {
			want := 0
			if language == c.language {
				want = all
			}
			check.Equal(t, visible(language), want, "samples in %s after a choice of %s", language, c.language)
		}
	}
	w.visit("/docs")
	check.Equal(t, visible("Go"), all, "samples in Go at the next visit")
}
