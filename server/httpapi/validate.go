package httpapi

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
)

// problems are what is wrong with the fields of a request.
type problems []fieldError

// note adds a problem; "" is none.
func (p *problems) note(field, problem string) {
	if problem != "" {
		*p = append(*p, fieldError{field, problem})
	}
}

func (p *problems) err() error {
	if len(*p) > 0 {
		return validationFailed(*p...)
	}
	return nil
}

// checkLength counts characters, not bytes; it returns what is wrong, or "". U+0000 is refused, because PostgreSQL keeps
// it in no text.
func checkLength(value string, least, most int) string {
	length := utf8.RuneCountInString(value)
	switch {
	case strings.IndexByte(value, 0) >= 0:
		return "must not contain U+0000"
	case length >= least && length <= most:
		return ""
	case least == 0:
		return fmt.Sprintf("must have at most %d characters", most)
	default:
		return fmt.Sprintf("must have %d to %d characters", least, most)
	}
}

const (
	// maxExactInteger is the largest integer that every JSON reader keeps exactly (RFC 8259 §6).
	maxExactInteger = 1<<53 - 1
	// unbounded is the "most" of an integer that the specification bounds on one side only.
	unbounded = maxExactInteger
)

// exactInteger reads a JSON number. Beyond maxExactInteger it returns the nearest bound past it, which no range admits.
func exactInteger(number string) (value int, whole bool) {
	if value, err := strconv.Atoi(number); err == nil {
		return min(max(value, -maxExactInteger-1), maxExactInteger+1), true
	}
	float, err := strconv.ParseFloat(number, 64)
	switch {
	case float > maxExactInteger: // 1e999 is +Inf with an error, and as much too large
		return maxExactInteger + 1, true
	case float < -maxExactInteger:
		return -maxExactInteger - 1, true
	default:
		return int(float), err == nil && float == math.Trunc(float)
	}
}

// checkRange returns what is wrong, or "".
func checkRange(value, least, most int) string {
	switch {
	case value >= least && value <= most:
		return ""
	case most == unbounded && value < least:
		return fmt.Sprintf("must be at least %d", least)
	default:
		return fmt.Sprintf("must be %d to %d", least, most)
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

// parseUUID takes the one form that the interface writes, in either case.
func parseUUID(text string) (uuid.UUID, bool) {
	if len(text) != len(uuid.Nil.String()) {
		return uuid.Nil, false
	}
	id, err := uuid.Parse(text)
	return id, err == nil
}

func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }

// isCountryCode takes two ASCII letters, in either case.
func isCountryCode(code string) bool { return len(code) == 2 && isLetter(code[0]) && isLetter(code[1]) }
