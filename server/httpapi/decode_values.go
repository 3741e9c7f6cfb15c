package httpapi

import (
	"strings"
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

// parseTime refuses what [time.Parse] lets through: an hour of one digit, a comma before the fraction, an offset of a day.
func parseTime(text string) (time.Time, bool) {
	at, err := time.Parse(time.RFC3339, text)
	const hourEnds = len("2006-01-02T15")
	if err != nil || text[hourEnds] != ':' || strings.Contains(text, ",") {
		return time.Time{}, false
	}
	_, offset := at.Zone()
	return at, offset > -secondsOfDay && offset < secondsOfDay
}

const secondsOfDay = 24 * 60 * 60

// textList reads an array of at most strings. Of an empty one the target is empty, not nil.
func textList(target *[]string, most int) valueReader {
	return func(d *jsontext.Decoder) (string, error) {
		if d.PeekKind() != '[' {
			return skipWrong(d, "must be an array of strings")
		}
		if _, err := d.ReadToken(); err != nil {
			return "", err
		}
		list, problem := []string{}, ""
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
			if len(list) == most {
				problem = "has too many elements"
				continue
			}
			list = append(list, token.String())
		}
		*target = list
		_, err := d.ReadToken()
		return problem, err
	}
}

// optionalText reads a string of least to most characters; the target stays nil where there is none.
func optionalText(target **string, least, most int) valueReader {
	return func(d *jsontext.Decoder) (string, error) {
		var value string
		problem, err := text(&value, least, most)(d)
		*target = &value
		return problem, err
	}
}
