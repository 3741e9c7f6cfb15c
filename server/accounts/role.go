package accounts

import (
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"examprep.dev/server/audit"
)

// Role is what a member may do. The empty role is none.
type Role string

// The roles. Each may do what those before it may.
const (
	Viewer    Role = "viewer"    // reads
	Developer Role = "developer" // changes keys and webhooks
	Owner     Role = "owner"     // changes members
)

// ranked has the roles, the lowest first.
var ranked = [...]Role{"", Viewer, Developer, Owner}

// Covers reports whether the role may do what needed may.
func (r Role) Covers(needed Role) bool {
	return slices.Index(ranked[:], r) >= slices.Index(ranked[:], needed)
}

func checkRole(role Role) error {
	if role == "" || !slices.Contains(ranked[:], role) {
		return &InvalidError{Field: "role", Detail: "must be owner, developer or viewer"}
	}
	return nil
}

// Person is a person that an OpenID Connect provider has signed in.
type Person struct {
	Issuer, Subject string
	Email           string // that the provider has verified; empty for none
}

// Name returns the person's name in the audit log.
func (p Person) Name() string { return audit.Person(p.Issuer, p.Subject) }

// Creator returns the name of a person that created something. An administrator has none for members: users and hosts of the command
// line are not for them.
func Creator(name string) string {
	if strings.Contains(name, "#") {
		return name
	}
	return string(audit.Administrator)
}

// Member is a person with a role in an account.
type Member struct {
	ID uuid.UUID
	Person
	Role      Role
	CreatedAt time.Time
	CreatedBy string // the [Person.Name] of a member, or an administrator's user@host
}

// Invitation offers a role in an account to an address.
type Invitation struct {
	ID        uuid.UUID
	Email     string
	Role      Role
	CreatedAt time.Time
	CreatedBy string // as a [Member]'s
	ExpiresAt time.Time
}

// MaxEmail is RFC 5321's limit of an address in bytes (erratum 1690).
const MaxEmail = 254

// foldEmail returns the form in which addresses are compared: A to Z become a to z. It returns an [*InvalidError] unless the text is an
// address of visible ASCII characters.
func foldEmail(email string) (string, error) {
	local, host, found := strings.Cut(email, "@")
	odd := func(r rune) bool { return r <= ' ' || r > '~' }
	if !found || local == "" || host == "" || strings.Contains(host, "@") || len(email) > MaxEmail || strings.ContainsFunc(email, odd) {
		return "", &InvalidError{Field: "email", Detail: "must be an address of at most 254 ASCII characters, such as ops@example.org"}
	}
	return strings.ToLower(email), nil
}
