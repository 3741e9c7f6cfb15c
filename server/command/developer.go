package command

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"examprep.dev/server/accounts"
	"examprep.dev/server/audit"
	"examprep.dev/server/command/cli"
	"examprep.dev/server/command/parts"
	"examprep.dev/server/httpapi/developer"
	"examprep.dev/server/keys"
	"examprep.dev/server/keys/directory"
	"examprep.dev/server/postgres"
	"examprep.dev/server/sessions"
	"examprep.dev/server/usage"
	"examprep.dev/server/webhooks"
)

// registerSignIn adds the settings of the developer endpoints; without an issuer there are none.
func (f *apiFlags) registerSignIn(cmd *cobra.Command) {
	encryptionKeysFlag(cmd, &f.encryptionKeys)
	set := cmd.Flags()
	set.StringVar(&f.provider.Issuer, "oidc-issuer", "", "OpenID Connect provider that developers sign in with; empty: no developer endpoints")
	set.StringVar(&f.provider.ClientID, "oidc-client-id", "", "this service's id with the provider")
	set.StringVar(&f.provider.ClientSecret, "oidc-client-secret", "", "this service's secret with the provider")
	set.StringVar(&f.provider.RedirectURL, "oidc-redirect-url", "", "this service's /v1/developer/callback, as the provider knows it")
	set.BoolVar(&f.personalAccounts, "personal-accounts", true, "give each person who signs in without an account one; false: only members sign in")
	set.StringVar(&f.signInContact, "sign-in-contact", "",
		"address or URL of the support for people who cannot sign in, at most 200 characters; the console shows it to them")
	set.DurationVar(&f.sessionIdle, "session-idle", 2*time.Hour, "idle timeout of a session, counted from its last use")
	set.DurationVar(&f.sessionLifetime, "session-lifetime", 12*time.Hour, "maximum lifetime of a session, counted from its sign-in")
}

// checkSessionTimes refuses times that no session could be used for: cookies count whole seconds.
func checkSessionTimes(idle, lifetime time.Duration) error {
	switch {
	case idle < time.Second:
		return &cli.UsageError{Err: fmt.Errorf("--session-idle: %s is less than a second", idle)}
	case lifetime < idle:
		return &cli.UsageError{Err: fmt.Errorf("--session-lifetime: %s is less than --session-idle, %s", lifetime, idle)}
	}
	return nil
}

// maxContact bounds --sign-in-contact, in characters.
const maxContact = 200

// checkContact refuses a text that the console cannot show on one line.
func checkContact(text string) error {
	switch {
	case !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl):
		return &cli.UsageError{Err: errors.New("--sign-in-contact: it is not UTF-8 or has a control character")}
	case utf8.RuneCountInString(text) > maxContact:
		return &cli.UsageError{Err: fmt.Errorf("--sign-in-contact: it has %d characters, at most %d are allowed", utf8.RuneCountInString(text), maxContact)}
	}
	return nil
}

// newDeveloper wires the developer endpoints and the upkeep of their sessions; nil without a provider. Changes of keys are confirmed by the pool background.
func newDeveloper(
	p *process, flags *apiFlags, secret []byte, background *pgxpool.Pool, bulkhead *postgres.Bulkhead, notifier *webhooks.Notifier,
) (*developer.Deps, []parts.Part, error) {
	if flags.provider.Issuer == "" {
		return nil, nil, nil // no developer endpoints
	}
	for flag, value := range map[string]string{
		"oidc-client-id": flags.provider.ClientID, "oidc-redirect-url": flags.provider.RedirectURL,
	} {
		if err := cli.Require(flag, value); err != nil {
			return nil, nil, err
		}
	}
	if err := checkSessionTimes(flags.sessionIdle, flags.sessionLifetime); err != nil {
		return nil, nil, err
	}
	if err := checkContact(flags.signInContact); err != nil {
		return nil, nil, err
	}
	keyring, err := parseKeyring(flags.encryptionKeys)
	if err != nil {
		return nil, nil, err
	}
	store := keys.NewStore(p.pool, directory.NewAuthor(background, directory.AuthorConfig{Timings: flags.program.Timings}))
	signedIn := sessions.NewStore(p.pool, sessions.Config{
		Secret: secret, Issuer: flags.provider.Issuer, Idle: flags.sessionIdle, Lifetime: flags.sessionLifetime, Now: time.Now,
	})
	people := accounts.NewStore(p.pool, flags.personalAccounts, time.Now)
	return &developer.Deps{
		SignIn: sessions.NewSignIn(flags.provider, secret, people, signedIn), Sessions: signedIn, Accounts: people,
		Audit: audit.NewLog(p.pool), Keys: store,
		Usage:       usage.NewStore(p.pool),
		Webhooks:    webhooks.NewEndpoints(p.pool, keyring, webhooks.NewAddressPolicy(nil)),
		Deliveries:  webhooks.NewDeliveries(p.pool, func(endpoint uuid.UUID) { notifier.Notify(endpoint) }),
		Environment: string(p.installation.Environment), SessionLifetime: flags.sessionLifetime, SignInContact: flags.signInContact,
		Now: time.Now, Bulkhead: bulkhead,
	}, []parts.Part{{Name: "sessions", Run: signedIn.Run}}, nil
}
