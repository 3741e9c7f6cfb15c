package command

import (
	"errors"
	"strings"
	"testing"
	"time"

	"examprep.dev/server/command/cli"
)

func TestSessionTimesThatNoSessionCouldBeUsedForAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		idle, lifetime time.Duration
		mistake        string // the flag; "" where there is none
	}{
		"usual":                {2 * time.Hour, 12 * time.Hour, ""},
		"the least":            {time.Second, time.Second, ""},
		"no idle time":         {0, time.Hour, "--session-idle"},
		"negative idle time":   {-1, time.Hour, "--session-idle"},
		"less than a second":   {time.Second - 1, time.Hour, "--session-idle"},
		"no lifetime":          {time.Hour, 0, "--session-lifetime"},
		"lifetime below idle":  {time.Hour, time.Hour - 1, "--session-lifetime"},
		"a lifetime below all": {time.Second, -time.Second, "--session-lifetime"},
	} {
		t.Run(name, func(t *testing.T) {
			flags := &apiFlags{sessionIdle: c.idle, sessionLifetime: c.lifetime}
			flags.provider.Issuer, flags.provider.ClientID, flags.provider.RedirectURL = "https://issuer.example", "c", "https://api.example"
			flags.encryptionKeys = "not a keyring" // the next setting that is looked at
			_, _, err := newDeveloper(nil, flags, nil, nil, nil, nil)
			if _, ok := errors.AsType[*cli.UsageError](err); !ok {
				t.Fatalf("got %v, want a UsageError", err)
			}
			if named := strings.HasPrefix(err.Error(), "--session-"); named != (c.mistake != "") || !strings.HasPrefix(err.Error(), c.mistake) {
				t.Errorf("got %q, want %q named", err, c.mistake)
			}
		})
	}
}

func TestContactThatTheConsoleCannotShowIsRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		contact  string
		accepted bool
	}{
		"none":           {"", true},
		"an address":     {"support@example.org", true},
		"a URL":          {"https://example.org/support?topic=sign-in", true},
		"markup":         {"<b>Ada</b>", true}, // it is shown as it is
		"the longest":    {strings.Repeat("é", 200), true},
		"too long":       {strings.Repeat("é", 201), false},
		"a line break":   {"Ada\nGrace", false},
		"a NUL":          {"Ada\x00", false},
		"a C1 character": {"Ada\u0085", false},
		"not UTF-8":      {"\xff", false},
	} {
		err := checkContact(c.contact)
		usage, ok := errors.AsType[*cli.UsageError](err)
		if ok == c.accepted || ok && !strings.HasPrefix(usage.Error(), "--sign-in-contact: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
