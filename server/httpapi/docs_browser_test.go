package httpapi_test

import (
	"context"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"examprep.dev/api/openapi"
	"examprep.dev/server/testkit/apitest"
	"examprep.dev/server/testkit/check"
)

// A browser sees what no reading of the page does: that the viewer works with this document and under the page's policy.
func TestTheReferencePageShowsEveryOperation(t *testing.T) {
	t.Parallel()
	browser, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("there is no chromium to show the page")
	}
	a := newAPI(t, apitest.Options{})
	profile, err := os.MkdirTemp("", "chromium") //nolint:usetesting // its processes may still write there, which t.TempDir would mind
	check.NoError(t, err)
	defer func() { _ = os.RemoveAll(profile) }()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	show := exec.CommandContext(ctx, browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--user-data-dir="+profile,
		"--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1", "--virtual-time-budget=20000", "--enable-logging=stderr",
		"--dump-dom", "http://"+a.Address+"/docs")
	var said strings.Builder
	show.Stderr = &said
	show.WaitDelay = 10 * time.Second
	shown, err := show.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, said.String())
	}
	contract, err := openapi.JSON()
	check.NoError(t, err)
	operations := regexp.MustCompile(`"operationId":"([^"]*)"`).FindAllStringSubmatch(string(contract), -1)
	if len(operations) < 30 {
		t.Fatalf("%d operations found; the document's form has changed", len(operations))
	}
	for _, operation := range operations {
		if !strings.Contains(string(shown), "-"+operation[1]+`"`) {
			t.Errorf("the page does not show %s", operation[1])
		}
	}
	for line := range strings.Lines(said.String()) { // what the page's policy refuses, and errors in its scripts, too
		if strings.Contains(line, "CONSOLE") {
			t.Errorf("the page complains: %s", line)
		}
	}
}
