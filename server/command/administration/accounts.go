package administration

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"examprep.dev/server/accounts"
	"examprep.dev/server/command/cli"
	"examprep.dev/server/command/listing"
)

// accountsFlags are the settings of every accounts command.
type accountsFlags struct {
	databaseURL string
	output      cli.Output
}

func (f *accountsFlags) register(cmd *cobra.Command) *cobra.Command {
	cli.DatabaseFlag(cmd, &f.databaseURL)
	f.output.Register(cmd)
	return cmd
}

// with opens the accounts. Changes under the context of use are recorded as an administrator's.
func (f *accountsFlags) with(ctx context.Context, use func(context.Context, *accounts.Administration) error) error {
	return administer(ctx, f.databaseURL, func(ctx context.Context, pool *pgxpool.Pool) error {
		return use(ctx, accounts.NewAdministration(pool, time.Now))
	})
}

// NewAccounts returns the commands for accounts.
func NewAccounts() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "accounts",
		Short: "Accounts, their members and their limits, for administrators",
		Long:  "An account is a customer. Its members sign in, and share its keys, webhooks and usage.",
	}
	cmd.AddCommand(newAccountsList(), newAccountsMembers(), newAccountsAdd(), newAccountsRemove(), newAccountsLimit())
	return cmd
}

// listedAccount is one account of `accounts list -o json`.
type listedAccount struct {
	ID          uuid.UUID `json:"account_id"`
	Name        string    `json:"account"`
	CreatedAt   time.Time `json:"created_at"`
	KeyLimit    int       `json:"key_limit"`
	Members     int       `json:"members"`
	Invitations int       `json:"invitations"`
}

func newAccountsList() *cobra.Command {
	var flags accountsFlags
	return flags.register(&cobra.Command{
		Use:   "list",
		Short: "List accounts by name",
		Args:  cli.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return flags.with(cmd.Context(), func(ctx context.Context, store *accounts.Administration) error {
				found := store.All(ctx)
				if flags.output.JSON {
					return listing.JSON(cmd.OutOrStdout(), "accounts", each(found, func(a accounts.Account) listedAccount { return listedAccount(a) }))
				}
				heading := []string{"ACCOUNT", "ID", "MEMBERS", "INVITATIONS", "KEY LIMIT", "CREATED"}
				return listing.Table(cmd.OutOrStdout(), heading, each(found, func(a accounts.Account) []string {
					return []string{
						a.Name, a.ID.String(), strconv.Itoa(a.Members), strconv.Itoa(a.Invitations), strconv.Itoa(a.KeyLimit),
						a.CreatedAt.Format(time.RFC3339),
					}
				}))
			})
		},
	})
}

// listedMember is a member or an invitation, which has no subject, of `accounts members -o json`.
type listedMember struct {
	ID        uuid.UUID     `json:"id"`
	State     string        `json:"state"` // member or invited
	Issuer    string        `json:"issuer,omitempty"`
	Subject   string        `json:"subject,omitempty"`
	Email     string        `json:"email,omitempty"`
	Role      accounts.Role `json:"role"`
	CreatedAt time.Time     `json:"created_at"`
	CreatedBy string        `json:"created_by"`
	ExpiresAt *time.Time    `json:"expires_at,omitempty"` // of an invitation
}

func memberOf(m accounts.Member) listedMember {
	return listedMember{
		ID: m.ID, State: "member", Issuer: m.Issuer, Subject: m.Subject, Email: m.Email, Role: m.Role, CreatedAt: m.CreatedAt,
		CreatedBy: m.CreatedBy,
	}
}

func invitedOf(i accounts.Invitation) listedMember {
	return listedMember{
		ID: i.ID, State: "invited", Email: i.Email, Role: i.Role, CreatedAt: i.CreatedAt, CreatedBy: i.CreatedBy, ExpiresAt: &i.ExpiresAt,
	}
}

func newAccountsMembers() *cobra.Command {
	var flags accountsFlags
	return flags.register(&cobra.Command{
		Use:   "members ACCOUNT",
		Short: "List the members and open invitations of an account",
		Args:  cli.Exactly("ACCOUNT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return flags.with(cmd.Context(), func(ctx context.Context, store *accounts.Administration) error {
				people, err := store.People(ctx, args[0])
				if err != nil {
					return err
				}
				listed := make([]listedMember, 0, len(people.Members)+len(people.Invitations))
				for _, member := range people.Members {
					listed = append(listed, memberOf(member))
				}
				for _, invitation := range people.Invitations {
					listed = append(listed, invitedOf(invitation))
				}
				found := withoutError(slices.Values(listed))
				if flags.output.JSON {
					return listing.JSON(cmd.OutOrStdout(), "members", found)
				}
				heading := []string{"ID", "STATE", "ROLE", "E-MAIL", "PERSON"}
				return listing.Table(cmd.OutOrStdout(), heading, each(found, func(m listedMember) []string {
					person := ""
					if m.Subject != "" {
						person = accounts.Person{Issuer: m.Issuer, Subject: m.Subject}.Name()
					}
					return []string{m.ID.String(), m.State, string(m.Role), m.Email, person}
				}))
			})
		},
	})
}

func newAccountsAdd() *cobra.Command {
	var flags accountsFlags
	var email, subject, role string
	cmd := flags.register(&cobra.Command{
		Use:   "add ACCOUNT",
		Short: "Invite an address to an account, or make a person a member at once",
		Long: "With --email, the address is invited for 14 days: a person who signs in with it, and whose provider has verified it,\n" +
			"can accept. No e-mail is sent. With --subject, the person is a member at once, for providers that vouch for no address.",
		Args: cli.Exactly("ACCOUNT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if (email == "") == (subject == "") {
				return &cli.UsageError{Err: errors.New("accounts add needs one of --email and --subject")}
			}
			return flags.with(cmd.Context(), func(ctx context.Context, store *accounts.Administration) error {
				added, err := add(ctx, store, args[0], email, subject, accounts.Role(role))
				if err != nil {
					return err
				}
				return flags.output.Print(cmd.OutOrStdout(), added, func(w io.Writer) error {
					text := fmt.Sprintf("%s is a member of %s as %s", subject, args[0], role)
					if email != "" {
						text = fmt.Sprintf("%s is invited to %s as %s until %s", added.Email, args[0], role, added.ExpiresAt.Format(time.RFC3339))
					}
					_, err := fmt.Fprintln(w, text)
					return err
				})
			})
		},
	})
	cmd.Flags().StringVar(&email, "email", "", "address to invite")
	cmd.Flags().StringVar(&subject, "subject", "", "ISSUER#SUBJECT of the person, as the provider knows it")
	cmd.Flags().StringVar(&role, "role", string(accounts.Owner), "owner, developer or viewer; the first member of an account is an owner")
	return cmd
}

func add(
	ctx context.Context, store *accounts.Administration, account, email, subject string, role accounts.Role,
) (listedMember, error) {
	if email != "" {
		invited, err := store.Invite(ctx, account, email, role)
		return invitedOf(invited), err
	}
	person := accounts.Person{}
	person.Issuer, person.Subject, _ = strings.Cut(subject, "#") // an issuer has no fragment
	member, err := store.Add(ctx, account, person, role)
	return memberOf(member), err
}

func newAccountsRemove() *cobra.Command {
	var flags accountsFlags
	return flags.register(&cobra.Command{
		Use:   "remove ACCOUNT MEMBER",
		Short: "End a membership, with the person's sessions in the account, or an invitation, by its id",
		Args:  cli.Exactly("ACCOUNT", "MEMBER"),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := uuid.Parse(args[1])
			if err != nil {
				return &cli.UsageError{Err: fmt.Errorf("MEMBER: %q must be an id that examprep accounts members shows", args[1])}
			}
			return flags.with(cmd.Context(), func(ctx context.Context, store *accounts.Administration) error {
				if err := store.Remove(ctx, args[0], id); err != nil {
					return err
				}
				done := map[string]any{"id": id, "removed": true}
				return flags.output.Print(cmd.OutOrStdout(), done, func(w io.Writer) error {
					_, err := fmt.Fprintf(w, "%s removed from %s\n", id, args[0])
					return err
				})
			})
		},
	})
}

func newAccountsLimit() *cobra.Command {
	var flags accountsFlags
	return flags.register(&cobra.Command{
		Use:   "limit ACCOUNT N",
		Short: "Set how many active keys the members of an account can create",
		Args:  cli.Exactly("ACCOUNT", "N"),
		RunE: func(cmd *cobra.Command, args []string) error {
			most, err := strconv.Atoi(args[1])
			if err != nil {
				return &cli.UsageError{Err: fmt.Errorf("the number of keys %q must be a whole number", args[1])}
			}
			return flags.with(cmd.Context(), func(ctx context.Context, store *accounts.Administration) error {
				if err := store.LimitKeys(ctx, args[0], most); err != nil {
					return err
				}
				done := map[string]any{"account": args[0], "key_limit": most}
				return flags.output.Print(cmd.OutOrStdout(), done, func(w io.Writer) error {
					_, err := fmt.Fprintf(w, "%s can have %d active keys\n", args[0], most)
					return err
				})
			})
		},
	})
}

// withoutError yields each element without an error.
func withoutError[V any](elements iter.Seq[V]) iter.Seq2[V, error] {
	return func(yield func(V, error) bool) {
		for element := range elements {
			if !yield(element, nil) {
				return
			}
		}
	}
}
