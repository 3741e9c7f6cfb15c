package codec

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	"examprep.dev/server/httpapi/apierror"
)

// Fields are the named values of a body or a query. A getter sets its target if the field is given, and notes what is wrong
// with it. Unknown fields are ignored (docs/spec.md, part 9), and so are null fields of a body.
type Fields struct {
	members  []member         // of a body, in its order
	values   map[string]value // of a query
	invalid  error            // why there are no values
	problems []apierror.Field
}

// value is a value of a body or a query.
type value struct {
	json    jsontext.Value // nil in a query
	text    string         // in a query, decoded
	problem string         // why a query's value cannot be read
}

// member is a member of a body's object. Both parts are pieces of the body.
type member struct{ name, value jsontext.Value }

// is reports whether the member has that name.
func (m member) is(name string) bool {
	if bytes.IndexByte(m.name, '\\') >= 0 {
		return unquote(m.name) == name
	}
	return len(m.name) == len(name)+2 && string(m.name[1:len(name)+1]) == name
}

// find returns the value of that name. A null of a body is as if the member were not there.
func (f *Fields) find(name string) (found value, given bool) {
	for _, m := range f.members {
		if m.is(name) {
			if m.value.Kind() == 'n' {
				return value{}, false
			}
			return value{json: m.value}, true
		}
	}
	found, given = f.values[name]
	return found, given
}

const (
	hasNUL     = "must not contain U+0000" // PostgreSQL cannot store such a text
	notString  = "must be a string"
	notInteger = "must be an integer"
	// maxExactInteger is the largest integer that every JSON reader keeps exactly (RFC 8259 §6).
	maxExactInteger = 1<<53 - 1
	// NoMax is the maximum of an integer without one.
	NoMax        = maxExactInteger
	secondsOfDay = 24 * 60 * 60
)

// note adds a problem; "" is none.
func (f *Fields) note(name, problem string) {
	if problem != "" {
		f.problems = append(f.problems, apierror.Field{Name: name, Detail: problem})
	}
}

// Check returns the error of the request, nil if there is none. Required fields that are missing come last.
func (f *Fields) Check(required ...string) error {
	if f.invalid != nil {
		return f.invalid
	}
	for _, name := range required {
		if _, given := f.find(name); !given {
			f.note(name, "is required")
		}
	}
	if len(f.problems) > 0 {
		return apierror.Invalid(f.problems...)
	}
	return nil
}

// get notes otherKind for a value of another kind. A query's values are of any kind.
func (f *Fields) get(name string, kind jsontext.Kind, otherKind string) (found value, given bool) {
	found, given = f.find(name)
	problem := found.problem
	if found.json != nil && found.json.Kind() != kind {
		problem = otherKind
	}
	f.note(name, problem)
	return found, given && problem == ""
}

func (f *Fields) text(name, otherKind string) (text string, given bool) {
	found, given := f.get(name, '"', otherKind)
	if found.json != nil && given {
		return unquote(found.json), true
	}
	return found.text, given
}

// unquote returns the text of a JSON string that was checked.
func unquote(quoted jsontext.Value) string {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return string(quoted[1 : len(quoted)-1])
	}
	text, _ := jsontext.AppendUnquote(nil, quoted)
	return string(text)
}

// Text reads a string of low to high characters, and reports whether there is one.
func (f *Fields) Text(name string, target *string, low, high int) bool {
	given := f.Opaque(name, target, low, high)
	if given && strings.ContainsRune(*target, 0) {
		f.note(name, hasNUL)
	}
	return given
}

// Opaque is Text that admits U+0000: its value is not stored as text.
func (f *Fields) Opaque(name string, target *string, low, high int) bool {
	text, given := f.text(name, notString)
	if !given {
		return false
	}
	length := utf8.RuneCountInString(text) // characters, not bytes
	switch *target = text; {
	case length >= low && length <= high:
	case low == 0:
		f.note(name, fmt.Sprintf("must have at most %d characters", high))
	default:
		f.note(name, fmt.Sprintf("must have %d to %d characters", low, high))
	}
	return true
}

// OneOf reads one of a few strings.
func (f *Fields) OneOf(name string, target *string, values ...string) {
	if text, given := f.text(name, notString); given {
		if *target = text; !slices.Contains(values, text) {
			f.note(name, "must be one of "+strings.Join(values, ", "))
		}
	}
}

// Bool reads true or false.
func (f *Fields) Bool(name string, target *bool) {
	found, given := f.find(name)
	switch text := string(found.json) + found.text; { // one of them is empty
	case found.problem != "":
		f.note(name, found.problem)
	case given && text != "true" && text != "false":
		f.note(name, "must be true or false")
	case given:
		*target = text == "true"
	}
}

// Match returns a string, empty if there is none, and notes problem if accept refuses it.
func (f *Fields) Match(name, problem string, accept func(string) bool) string {
	text, given := f.text(name, problem)
	if given && !accept(text) {
		f.note(name, problem)
	}
	return text
}

// Time reads an RFC 3339 time; nil if there is none.
func (f *Fields) Time(name string) (at *time.Time) {
	f.Match(name, "must be an RFC 3339 time", func(text string) (isTime bool) {
		at = new(time.Time)
		*at, isTime = parseTime(text)
		return isTime
	})
	return at
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

// Integer reads an integer of low to high, in a query as decimal digits. In JSON 1.0 and 1e1 are
// integers too, as in JSON Schema.
func (f *Fields) Integer(name string, target *int, low, high int) {
	found, given := f.get(name, '0', notInteger)
	if !given {
		return
	}
	number, whole := exactInteger(string(found.json) + found.text) // one of them is empty
	if found.json == nil {
		whole = whole && strings.Trim(found.text, "-0123456789") == ""
	}
	switch *target = number; {
	case !whole:
		f.note(name, notInteger)
	case number >= low && number <= high:
	case high == NoMax && number < low:
		f.note(name, fmt.Sprintf("must be at least %d", low))
	default:
		f.note(name, fmt.Sprintf("must be %d to %d", low, high))
	}
}

// exactInteger reads a number. Beyond maxExactInteger it returns the nearest bound past it, which no range admits.
func exactInteger(number string) (value int, whole bool) {
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

// Strings reads an array of at most high strings. The result is nil if there is none, and not nil if it is empty.
func (f *Fields) Strings(name string, high int) (list []string) {
	const notStrings = "must be an array of strings"
	found, given := f.get(name, '[', notStrings)
	if !given {
		return nil
	}
	list = []string{}
	d := jsontext.NewDecoder(bytes.NewBuffer(found.json))
	_, _ = d.ReadToken() // the bracket; errors were checked for
	for d.PeekKind() != ']' {
		element, _ := d.ReadValue()
		if element.Kind() != '"' {
			f.note(name, notStrings)
			return nil
		}
		if len(list) == high {
			f.note(name, "has too many elements")
			return list
		}
		list = append(list, unquote(element))
	}
	return list
}

// ParseUUID accepts the form that the interface writes, in either case.
func ParseUUID(text string) (uuid.UUID, bool) {
	id, err := uuid.Parse(text)
	return id, err == nil && len(text) == len(uuid.Nil.String())
}
