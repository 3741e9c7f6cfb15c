package administration

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"os/user"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"examprep.dev/server/audit"
	"examprep.dev/server/command/cli"
	"examprep.dev/server/command/listing"
	"examprep.dev/server/keys"
	"examprep.dev/server/keys/directory"
	"examprep.dev/server/postgres"
)

// keysFlags are the settings of every keys command.
type keysFlags struct {
	timings     directory.Timings
	databaseURL string
	output      cli.Output
}

func (f *keysFlags) register(cmd *cobra.Command) {
	cli.DatabaseFlag(cmd, &f.databaseURL)
	f.output.Register(cmd)
}

// NewKeys returns the commands for keys. timings limits the wait for the API pods.
func NewKeys(timings directory.Timings) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "keys",
		Short: "API keys and their tiers, for administrators",
		Long:  "The first key, and the way in when signing in is broken. A key is shown once; only its hash is stored.",
	}
	cmd.AddCommand(newKeysCreate(timings), newKeysRevoke(timings), newKeysTier(timings), newKeysList(timings))
	return cmd
}

// createdKey is the output of `keys create -o json`.
type createdKey struct {
	Key       string     `json:"key"`
	Prefix    string     `json:"key_prefix"`
	Account   string     `json:"account"`
	Name      string     `json:"name"`
	Tier      string     `json:"tier"`
	CreatedAt time.Time  `json:"created_at"`
	ExpiresAt *time.Time `json:"expires_at,omitempty"`
}

// listedKey is one key of `keys list -o json`.
type listedKey struct {
	Prefix     string     `json:"key_prefix"`
	Account    string     `json:"account"`
	Name       string     `json:"name"`
	Tier       string     `json:"tier"`
	State      string     `json:"state"`
	CreatedAt  time.Time  `json:"created_at"`
	ExpiresAt  *time.Time `json:"expires_at,omitempty"`
	RevokedAt  *time.Time `json:"revoked_at,omitempty"`
	LastUsedAt *time.Time `json:"last_used_at,omitempty"`
}

func newListedKey(key keys.Summary) listedKey {
	return listedKey{
		Prefix: key.Prefix, Account: key.Account, Name: key.Name, Tier: key.Tier, State: keyState(key),
		CreatedAt: key.CreatedAt, ExpiresAt: key.ExpiresAt, RevokedAt: key.RevokedAt, LastUsedAt: key.LastUsedAt,
	}
}

func newKeysCreate(timings directory.Timings) *cobra.Command {
	flags := keysFlags{timings: timings}
	var account string
	var request keys.NewKey
	var expiresIn time.Duration
	cmd := &cobra.Command{
		Use:   "create --account NAME",
		Short: "Create a key, and its account if there is none of that name",
		Args:  cli.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := cli.Require("account", account); err != nil {
				return err
			}
			if expiresIn > 0 {
				at := time.Now().Add(expiresIn)
				request.ExpiresAt = &at
			}
			return flags.withStore(cmd.Context(), func(ctx context.Context, store *keys.Store) error {
				created, err := store.CreateFor(ctx, account, request)
				unconfirmed, committed := errors.AsType[*keys.UnconfirmedError](err)
				if err != nil && !committed {
					return err
				}
				shown := createdKey{
					created.Key, created.Prefix, created.Account, created.Name, created.Tier, created.CreatedAt, created.ExpiresAt,
				}
				err = flags.output.Print(cmd.OutOrStdout(), shown, func(w io.Writer) error {
					_, err := fmt.Fprintln(w, created.Key)
					return err
				})
				if err != nil || !committed {
					return err
				}
				return unconfirmed // the key exists, and is printed only now
			})
		},
	}
	flags.register(cmd)
	cmd.Flags().StringVar(&account, "account", "", "account that owns the key; created if it does not exist")
	cmd.Flags().StringVar(&request.Name, "name", "", "purpose of the key, shown in lists")
	cmd.Flags().StringVar(&request.Tier, "tier", "", "rate tier; empty: the tier that RateTier resources give the key or its account, else default")
	cmd.Flags().DurationVar(&expiresIn, "expires-in", 0, "lifetime, such as 720h; 0: none")
	return cmd
}

func newKeysRevoke(timings directory.Timings) *cobra.Command {
	flags := keysFlags{timings: timings}
	cmd := &cobra.Command{
		Use:   "revoke KEY_PREFIX",
		Short: "Revoke a key: when this command has ended no pod accepts it",
		Args:  cli.Exactly("KEY_PREFIX"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return flags.withStore(cmd.Context(), func(ctx context.Context, store *keys.Store) error {
				if err := store.RevokeAny(ctx, args[0]); err != nil {
					return err
				}
				done := map[string]any{"key_prefix": args[0], "revoked": true}
				return flags.output.Print(cmd.OutOrStdout(), done, func(w io.Writer) error {
					_, err := fmt.Fprintf(w, "%s revoked\n", args[0])
					return err
				})
			})
		},
	}
	flags.register(cmd)
	return cmd
}

func newKeysTier(timings directory.Timings) *cobra.Command {
	flags := keysFlags{timings: timings}
	cmd := &cobra.Command{
		Use:   "tier KEY_PREFIX TIER",
		Short: "Put a key on a rate tier",
		Args:  cli.Exactly("KEY_PREFIX", "TIER"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return flags.withStore(cmd.Context(), func(ctx context.Context, store *keys.Store) error {
				if err := store.SetTier(ctx, args[0], args[1]); err != nil {
					return err
				}
				done := map[string]string{"key_prefix": args[0], "tier": args[1]}
				return flags.output.Print(cmd.OutOrStdout(), done, func(w io.Writer) error {
					_, err := fmt.Fprintf(w, "%s is on tier %s\n", args[0], args[1])
					return err
				})
			})
		},
	}
	flags.register(cmd)
	return cmd
}

func newKeysList(timings directory.Timings) *cobra.Command {
	flags := keysFlags{timings: timings}
	var account string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List keys by prefix; the keys themselves are stored nowhere",
		Args:  cli.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return flags.withStore(cmd.Context(), func(ctx context.Context, store *keys.Store) error {
				found := store.All(ctx, account)
				if flags.output.JSON {
					return listing.JSON(cmd.OutOrStdout(), "keys", each(found, newListedKey))
				}
				heading := []string{"PREFIX", "ACCOUNT", "NAME", "TIER", "CREATED", "STATE"}
				return listing.Table(cmd.OutOrStdout(), heading, each(found, func(key keys.Summary) []string {
					return []string{key.Prefix, key.Account, key.Name, key.Tier, key.CreatedAt.Format(time.RFC3339), keyState(key)}
				}))
			})
		},
	}
	flags.register(cmd)
	cmd.Flags().StringVar(&account, "account", "", "account whose keys are listed; empty: all")
	return cmd
}

// each yields what of makes of each element.
func each[E, V any](found iter.Seq2[E, error], of func(E) V) iter.Seq2[V, error] {
	return func(yield func(V, error) bool) {
		for element, err := range found {
			if !yield(of(element), err) {
				return
			}
		}
	}
}

func keyState(key keys.Summary) string {
	switch {
	case key.RevokedAt != nil:
		return "revoked"
	case key.ExpiresAt != nil && key.ExpiresAt.Before(time.Now()):
		return "expired"
	default:
		return "active"
	}
}

// withStore opens the key store. Changes under the context of use are recorded as an administrator's.
func (f *keysFlags) withStore(ctx context.Context, use func(context.Context, *keys.Store) error) error {
	return administer(ctx, f.databaseURL, func(ctx context.Context, pool *pgxpool.Pool) error {
		return use(ctx, keys.NewStore(pool, directory.NewAuthor(pool, directory.AuthorConfig{Timings: f.timings})))
	})
}

// administer opens the database of an installation. Changes under the context of use are recorded as an administrator's.
func administer(ctx context.Context, databaseURL string, use func(context.Context, *pgxpool.Pool) error) error {
	if err := cli.Require("database-url", databaseURL); err != nil {
		return err
	}
	pool, err := postgres.Open(ctx, databaseURL, postgres.Options{})
	if err != nil {
		return err
	}
	defer pool.Close()
	if _, err := postgres.ReadInstallation(ctx, pool, ""); err != nil {
		return err
	}
	return use(audit.WithActor(ctx, administrator()), pool)
}

// administrator is the actor in the audit table: the operating system's user and the host. A user without a name, as in a
// container, is a number.
func administrator() audit.Actor {
	name := fmt.Sprintf("uid-%d", os.Getuid())
	if known, err := user.LookupId(strconv.Itoa(os.Getuid())); err == nil {
		name = known.Username
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return audit.Actor{Kind: audit.Administrator, Name: name + "@" + host}
}
