package accounts

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"golang.org/x/text/unicode/norm"

	"examprep.dev/server/audit"
	"examprep.dev/server/postgres/accountsdb"
)

const (
	maxName = 200 // in characters, as JSON Schema counts
	// PersonalKeys is how many active keys an account can have that a sign-in made.
	PersonalKeys = 25
	// MaxCreated is how many accounts the sign-ins of a person make. It bounds the keys of a person that hands accounts to others.
	MaxCreated = 5
	// MaxAccounts is the maximum of accounts of a person.
	MaxAccounts = 100
)

// Name returns the name that an account has in PostgreSQL: name in Unicode's form NFC, in which equal texts are equal bytes. It returns
// an [*InvalidError] if no account can have the name.
func Name(name string) (string, error) {
	invalid := func(detail string) (string, error) { return "", &InvalidError{Field: "account", Detail: detail} }
	name = norm.NFC.String(name)
	invisible := func(r rune) bool { return unicode.In(r, unicode.Z, unicode.C) }
	switch {
	case name == "":
		return invalid("must not be empty")
	case utf8.RuneCountInString(name) > maxName:
		return invalid(fmt.Sprintf("must not be longer than %d characters", maxName))
	case !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl):
		return invalid("must be UTF-8 text without control characters")
	case strings.TrimFunc(name, invisible) != name:
		return invalid("must not begin or end with a blank or an invisible character")
	}
	return name, nil
}

// Ensure returns the id of the account of that name in db, and creates it if there is none. db can be the transaction of the change that
// needs the account.
func Ensure(ctx context.Context, db accountsdb.DBTX, name string) (uuid.UUID, error) {
	name, err := Name(name)
	if err != nil {
		return uuid.Nil, err
	}
	id, err := accountsdb.New(db).EnsureAccount(ctx, accountsdb.EnsureAccountParams{ID: uuid.Must(uuid.NewV7()), Name: name})
	if err != nil {
		return uuid.Nil, fmt.Errorf("ensure account: %w", err)
	}
	return id, nil
}

// named returns the id of the account of that name, or an [*UnknownError].
func named(ctx context.Context, q *accountsdb.Queries, name string) (uuid.UUID, error) {
	known, err := Name(name)
	if err != nil {
		return uuid.Nil, err
	}
	id, err := q.AccountNamed(ctx, known)
	if errors.Is(err, pgx.ErrNoRows) {
		return uuid.Nil, &UnknownError{Name: known}
	}
	return id, err
}

// addPersonal creates a person's own account. Its name is the person's, with -2, -3 … to -1000 where that is taken, so no name of an
// administrator's account leads a person into it.
func addPersonal(ctx context.Context, q *accountsdb.Queries, person Person) (uuid.UUID, error) {
	account := accountsdb.AddPersonalAccountParams{
		ID: uuid.Must(uuid.NewV7()), Name: personalName(person), KeyLimit: PersonalKeys, Issuer: person.Issuer, Subject: person.Subject,
	}
	for range 3 { // another transaction can take the name at the same time
		if added, err := q.AddPersonalAccount(ctx, account); err != nil || added == 1 {
			return account.ID, err
		}
	}
	return uuid.Nil, &ConflictError{Detail: "No name is free for your account."}
}

// personalName returns issuer#subject. A hash replaces the subject if the name is too long (a subject can have 255
// characters), or if the subject looks like such a hash. It also replaces a subject that ends with a blank: the name of an account
// does not.
func personalName(person Person) string {
	const mark, maxLength = "sha256:", 190 // in bytes; -2 and its like follow
	name := audit.Person(person.Issuer, person.Subject)
	if len(name) <= maxLength && !strings.HasSuffix(name, " ") && !strings.HasPrefix(person.Subject, mark) {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	tail := "#" + mark + hex.EncodeToString(sum[:])
	return strings.ToValidUTF8(person.Issuer[:min(len(person.Issuer), maxLength-len(tail))], "") + tail
}
