package keys

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

const maxNameLength = 200 // in characters, as JSON Schema counts

// AccountName returns the name that an account has in PostgreSQL: name in Unicode's form NFC, in which equal texts are equal bytes.
// It returns an *InvalidError of the field "account" if no account can have the name.
func AccountName(name string) (string, error) {
	name = norm.NFC.String(name)
	if err := validateText("account", name, 1); err != nil {
		return "", err
	}
	invisible := func(r rune) bool { return unicode.In(r, unicode.Z, unicode.C) }
	if strings.TrimFunc(name, invisible) != name {
		return "", &InvalidError{Field: "account", Detail: "must not begin or end with a blank or an invisible character"}
	}
	return name, nil
}

// validateText refuses short and long texts, what PostgreSQL's text cannot hold, and control characters.
func validateText(field, text string, minLength int) error {
	switch {
	case len(text) < minLength:
		return &InvalidError{Field: field, Detail: "must not be empty"}
	case utf8.RuneCountInString(text) > maxNameLength:
		return &InvalidError{Field: field, Detail: fmt.Sprintf("must not be longer than %d characters", maxNameLength)}
	case !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl):
		return &InvalidError{Field: field, Detail: "must be UTF-8 text without control characters"}
	}
	return nil
}
