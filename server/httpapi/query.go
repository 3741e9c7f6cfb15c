package httpapi

import (
	"bytes"
	"errors"
	"net/url"
	"strconv"
	"unicode/utf8"

	"github.com/google/uuid"

	"examprep.dev/server/keys"
)

// A queryField is a known query parameter. read returns what is wrong with its value, or "".
type queryField struct {
	name string
	read func(value string) string
}

// decodeQuery reads the raw query (what follows "?"). A known parameter that is given twice, or whose value is not
// percent-encoded UTF-8, is refused; a parameter it does not know is ignored, however broken.
func decodeQuery(raw []byte, fields ...queryField) error {
	var problems []fieldError
	var seen uint64
	for len(raw) > 0 {
		var pair []byte
		pair, raw, _ = bytes.Cut(raw, []byte{'&'})
		rawName, rawValue, _ := bytes.Cut(pair, []byte{'='})
		name, err := url.QueryUnescape(string(rawName))
		if err != nil {
			continue
		}
		for i, field := range fields {
			if field.name != name {
				continue
			}
			problem := "is given more than once"
			if seen&(1<<i) == 0 {
				problem = readQueryValue(field, rawValue)
			}
			seen |= 1 << i
			if problem != "" && len(problems) < maxFieldErrors {
				problems = append(problems, fieldError{name, problem})
			}
		}
	}
	if len(problems) > 0 {
		return validationFailed(problems...)
	}
	return nil
}

func readQueryValue(field queryField, raw []byte) string {
	value, err := url.QueryUnescape(string(raw))
	if err != nil || !utf8.ValidString(value) {
		return "is not percent-encoded UTF-8"
	}
	return field.read(value)
}

func queryInteger(name string, target *int, least, most int) queryField {
	return queryField{name, func(value string) string {
		number, err := strconv.Atoi(value)
		if err != nil && !errors.Is(err, strconv.ErrRange) || value[0] == '+' {
			return "must be an integer"
		}
		*target = number // out of int's range: its nearest bound, which checkRange refuses
		return checkRange(number, least, most)
	}}
}

func queryText(name string, target *string, most int) queryField {
	return queryField{name, func(value string) string {
		*target = value
		return checkLength(value, 0, most)
	}}
}

// queryCountryCode takes two ASCII letters, in either case.
func queryCountryCode(name string, target *string) queryField {
	return queryField{name, func(value string) string {
		if len(value) != 2 || !isLetter(value[0]) || !isLetter(value[1]) {
			return "must be two letters (ISO 3166-1 alpha-2)"
		}
		*target = value
		return ""
	}}
}

func queryUUID(name string, target *uuid.NullUUID) queryField {
	return queryField{name, func(value string) string {
		if target.UUID, target.Valid = parseUUID(value); !target.Valid {
			return "must be a UUID"
		}
		return ""
	}}
}

func queryKeyPrefix(name string, target *string) queryField {
	return queryField{name, func(value string) string {
		if !keys.IsPrefix(value) {
			return "must be the prefix of a key"
		}
		*target = value
		return ""
	}}
}

func queryBoolean(name string, target *bool) queryField {
	return queryField{name, func(value string) string {
		if value != "true" && value != "false" {
			return "must be true or false"
		}
		*target = value == "true"
		return ""
	}}
}

func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }
