package keys

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

const maxNameLength = 200 // in characters, as JSON Schema counts

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
