package main

import (
	"context"
	"strings"
	"time"
)

// seedTime bounds a run of seed. If a name of this machine needs a look-up that no server answers, each of six delivery
// attempts takes ten seconds.
const seedTime = 2 * time.Minute

// seed gives the account of the key something to show in the console. If that fails, everything else goes on: a person can
// have changed the account in ways that seed does not expect.
func (e *environment) seed(ctx context.Context) {
	limited, cancel := context.WithTimeout(ctx, seedTime)
	defer cancel()
	made, err := output(limited, []string{"DATABASE_URL=" + e.databaseURL, "API_KEY=" + e.apiKey}, "", e.dir.Path("bin", "seed"),
		"-api", e.apiURL, "-account", account, "-subject", signInUser, "-receiver", e.receiverURL)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		e.console.sayf("the account %s lacks sample data: %v", account, err)
	case made != "":
		e.console.sayf("%s", strings.TrimSpace(made))
	}
}
