package codec

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"examprep.dev/server/httpapi/apierror"
)

// problems are what is wrong with the fields of a request.
type problems []apierror.Field

// note adds a problem; "" is none.
func (p *problems) note(field, problem string) {
	if problem != "" {
		*p = append(*p, apierror.Field{Name: field, Detail: problem})
	}
}

func (p *problems) err() error {
	if len(*p) > 0 {
		return apierror.Invalid(*p...)
	}
	return nil
}

// hasNUL is the problem of a text that PostgreSQL cannot store.
const hasNUL = "must not contain U+0000"

// checkLength counts characters, not bytes. It returns what is wrong, or "".
func checkLength(value string, low, high int) string {
	length := utf8.RuneCountInString(value)
	switch {
	case length >= low && length <= high:
		return ""
	case low == 0:
		return fmt.Sprintf("must have at most %d characters", high)
	default:
		return fmt.Sprintf("must have %d to %d characters", low, high)
	}
}

const (
	// maxExactInteger is the largest integer that every JSON reader keeps exactly (RFC 8259 §6).
	maxExactInteger = 1<<53 - 1
	// NoMax is the maximum of an integer without one.
	NoMax = maxExactInteger
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
func checkRange(value, low, high int) string {
	switch {
	case value >= low && value <= high:
		return ""
	case high == NoMax && value < low:
		return fmt.Sprintf("must be at least %d", low)
	default:
		return fmt.Sprintf("must be %d to %d", low, high)
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

// ParseUUID accepts the form that the interface writes, in either case.
func ParseUUID(text string) (uuid.UUID, bool) {
	if len(text) != len(uuid.Nil.String()) {
		return uuid.Nil, false
	}
	id, err := uuid.Parse(text)
	return id, err == nil
}
