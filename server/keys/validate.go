package keys

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

const (
	// maxNameLength is in characters, as JSON Schema counts.
	maxNameLength = 200
	// lastYear is the last one that RFC 3339 can write.
	lastYear     = 9999
	notOfAccount = "must be the prefix of a key of the account"
)

func validate(want NewKey) error {
	if err := validateAccount(want.Account); err != nil {
		return err
	}
	if err := validateText("name", want.Name); err != nil {
		return err
	}
	if want.InheritFrom != "" && !IsPrefix(want.InheritFrom) {
		return &InvalidError{Field: "inherit_from", Detail: notOfAccount}
	}
	switch {
	case want.ExpiresAt == nil:
		return nil
	case !want.ExpiresAt.After(time.Now()):
		return &InvalidError{Field: "expires_at", Detail: "must be in the future"}
	case want.ExpiresAt.UTC().Year() > lastYear:
		return &InvalidError{Field: "expires_at", Detail: fmt.Sprintf("must not be after the year %d", lastYear)}
	default:
		return nil
	}
}

// truncateToMicroseconds returns a time as PostgreSQL keeps it: rounded down, since rounding up could leave the last year.
func truncateToMicroseconds(at *time.Time) *time.Time {
	if at == nil {
		return nil
	}
	kept := at.UTC().Truncate(time.Microsecond)
	return &kept
}

func validateAccount(name string) error {
	if name == "" {
		return &InvalidError{Field: "account", Detail: "must not be empty"}
	}
	return validateText("account", name)
}

// validateText refuses what PostgreSQL's text cannot hold, and control characters.
func validateText(field, text string) error {
	switch {
	case utf8.RuneCountInString(text) > maxNameLength:
		return &InvalidError{Field: field, Detail: fmt.Sprintf("must not be longer than %d characters", maxNameLength)}
	case !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl):
		return &InvalidError{Field: field, Detail: "must be UTF-8 text without control characters"}
	}
	return nil
}

func nullIfEmpty(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}
