package httpapi

import (
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// timestamp reads an RFC 3339 time.
func timestamp(target **time.Time) valueReader {
	return func(d *jsontext.Decoder) (string, error) {
		if d.PeekKind() != '"' {
			return skipWrong(d, "must be an RFC 3339 time")
		}
		token, err := d.ReadToken()
		if err != nil {
			return "", err
		}
		at, isTime := parseTime(token.String())
		if !isTime {
			return "must be an RFC 3339 time", nil
		}
		*target = &at
		return "", nil
	}
}

func parseTime(text string) (time.Time, bool) {
	at, err := time.Parse(time.RFC3339, text)
	return at, err == nil
}

// textList reads an array of at most strings.
func textList(target *[]string, most int) valueReader {
	return func(d *jsontext.Decoder) (string, error) {
		if d.PeekKind() != '[' {
			return skipWrong(d, "must be an array of strings")
		}
		if _, err := d.ReadToken(); err != nil {
			return "", err
		}
		problem := ""
		for d.PeekKind() != ']' {
			if d.PeekKind() != '"' {
				problem = "must be an array of strings"
				if err := skipValue(d); err != nil {
					return "", err
				}
				continue
			}
			token, err := d.ReadToken()
			if err != nil {
				return "", err
			}
			if len(*target) == most {
				problem = "has too many elements"
				continue
			}
			*target = append(*target, token.String())
		}
		_, err := d.ReadToken()
		return problem, err
	}
}
