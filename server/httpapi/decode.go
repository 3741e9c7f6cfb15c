package httpapi

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"mime"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/valyala/fasthttp"

	"examprep.dev/server/attempts"
)

const (
	// maxDepth is how deep objects and arrays may nest in a request body; what the interface defines needs 2.
	maxDepth = 32
	// maxFieldErrors bounds the list of faults in one answer.
	maxFieldErrors = 20
	// maxExactInteger is the largest integer that every JSON reader keeps exactly (RFC 8259 §6).
	maxExactInteger = 1<<53 - 1
)

// A valueReader reads the value of one known field from d. problem says, for people, what is wrong with it ("" for
// nothing); err is a mistake of JSON itself. Either way a reader that returns no err has consumed the whole value.
type valueReader func(d *jsontext.Decoder) (problem string, err error)

// A bodyField is a known field of a request body.
type bodyField struct {
	name     string
	required bool
	read     valueReader
}

// decodeBody reads the request's JSON object into what fields point at. It is strict where a lenient reader would guess:
// Content-Type application/json in UTF-8, one value and nothing after it, no duplicate name at any depth, no invalid
// UTF-8, known fields of their exact type. Unknown fields are ignored (docs/spec.md, part 9, requires the same of
// clients).
func decodeBody(ctx *fasthttp.RequestCtx, fields ...bodyField) error {
	if err := checkMediaType(ctx.Request.Header.ContentType()); err != nil {
		return err
	}
	if encoding := ctx.Request.Header.ContentEncoding(); len(encoding) > 0 && !strings.EqualFold(string(encoding), "identity") {
		return unsupportedMedia("Request bodies are read without Content-Encoding.")
	}
	return decodeObject(ctx.Request.Body(), fields)
}

// checkMediaType takes application/json, without a charset or with UTF-8; other parameters mean nothing for it.
func checkMediaType(contentType []byte) error {
	if bytes.Equal(contentType, mediaTypeJSON) {
		return nil
	}
	mediaType, parameters, err := mime.ParseMediaType(string(contentType))
	if err != nil || mediaType != string(mediaTypeJSON) {
		return unsupportedMedia("Content-Type must be application/json.")
	}
	if charset, given := parameters["charset"]; given && !strings.EqualFold(charset, "utf-8") {
		return unsupportedMedia("The charset of application/json is utf-8.")
	}
	return nil
}

// decodeObject reads body, one JSON object. A mistake of JSON comes before any mistake of a field.
func decodeObject(body []byte, fields []bodyField) error {
	d := jsontext.NewDecoder(bytes.NewBuffer(body))
	if d.PeekKind() != '{' {
		if err := skipValue(d); err != nil {
			return syntaxError(err)
		}
		return &apiError{status: fasthttp.StatusBadRequest, code: codeValidationFailed, detail: "The body must be a JSON object."}
	}
	if _, err := d.ReadToken(); err != nil {
		return syntaxError(err)
	}
	var problems []fieldError
	var seen uint64 // bit i: fields[i] was there
	for d.PeekKind() == '"' {
		name, err := d.ReadToken()
		if err != nil {
			return syntaxError(err)
		}
		i := indexField(fields, name)
		if i < 0 {
			if err := skipValue(d); err != nil {
				return syntaxError(err)
			}
			continue
		}
		seen |= 1 << i
		problem, err := fields[i].read(d)
		if err != nil {
			return syntaxError(err)
		}
		if problem != "" {
			problems = append(problems, fieldError{fields[i].name, problem})
		}
	}
	if _, err := d.ReadToken(); err != nil { // the closing brace, or what stands in its place
		return syntaxError(err)
	}
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return invalidJSON(fmt.Sprintf("Something follows the JSON object, from byte %d on.", d.InputOffset()))
	}
	for i, field := range fields {
		if field.required && seen&(1<<i) == 0 {
			problems = append(problems, fieldError{field.name, "is required"})
		}
	}
	if len(problems) > 0 {
		return validationFailed(problems[:min(len(problems), maxFieldErrors)]...)
	}
	return nil
}

func indexField(fields []bodyField, name jsontext.Token) int {
	text := name.String()
	return slices.IndexFunc(fields, func(f bodyField) bool { return f.name == text })
}

// errTooDeep is a body that nests deeper than maxDepth.
var errTooDeep = fmt.Errorf("nested deeper than %d levels", maxDepth)

// skipValue reads past one value of any kind, checking it all the way.
func skipValue(d *jsontext.Decoder) error {
	for base := d.StackDepth(); ; {
		if _, err := d.ReadToken(); err != nil {
			return err
		}
		switch depth := d.StackDepth(); {
		case depth <= base:
			return nil
		case depth > maxDepth:
			return errTooDeep
		}
	}
}

// skipWrong reads past a value that is not of its field's type, and says so.
func skipWrong(d *jsontext.Decoder, problem string) (string, error) { return problem, skipValue(d) }

// syntaxError returns the error for a body that is not JSON. One has its own code (docs/spec.md, part 7): an answer
// that is given twice.
func syntaxError(err error) *apiError {
	var at *jsontext.SyntacticError
	switch {
	case errors.Is(err, io.EOF):
		return invalidJSON("The body is empty.")
	case !errors.As(err, &at):
		return invalidJSON("The body is not acceptable JSON: " + err.Error() + ".")
	case errors.Is(err, jsontext.ErrDuplicateName):
		name := at.JSONPointer.LastToken()
		if at.JSONPointer.Parent() == "/answers" {
			return &apiError{
				status: fasthttp.StatusBadRequest, code: codeDuplicateAnswerKey,
				detail: fmt.Sprintf("The answer key %q is given twice.", name),
				fields: []fieldError{{"answers." + name, "is given twice"}},
			}
		}
		duplicate := invalidJSON(fmt.Sprintf("The name %q is given twice.", name))
		if path := fieldPath(at.JSONPointer); path != "" { // the empty name can be told, but names no field
			duplicate.fields = []fieldError{{path, "is given twice"}}
		}
		return duplicate
	case errors.Is(err, io.ErrUnexpectedEOF):
		return invalidJSON("The body ends in the middle of JSON.")
	default:
		return invalidJSON(fmt.Sprintf("The body is not JSON: %s, at byte %d.", at.Err, at.ByteOffset))
	}
}

// fieldPath turns /a/b into a.b, as fields are named elsewhere.
func fieldPath(pointer jsontext.Pointer) string {
	return strings.Join(slices.Collect(pointer.Tokens()), ".")
}

// text reads a string of least to most characters.
func text(target *string, least, most int) valueReader {
	return stringTo(target, func(value string) string { return checkLength(value, least, most) })
}

// stringTo reads a string; check returns what is wrong with it, or "".
func stringTo(target *string, check func(value string) string) valueReader {
	return func(d *jsontext.Decoder) (string, error) {
		if d.PeekKind() != '"' {
			return skipWrong(d, "must be a string")
		}
		token, err := d.ReadToken()
		if err != nil {
			return "", err
		}
		*target = token.String()
		return check(*target), nil
	}
}

// checkLength counts characters, not bytes; it returns what is wrong, or "". U+0000 is refused: PostgreSQL keeps it in
// no text, and nothing that is named here has one.
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

// oneOf reads one of a few strings.
func oneOf(target *string, values ...string) valueReader {
	return stringTo(target, func(value string) string {
		if !slices.Contains(values, value) {
			return "must be one of " + strings.Join(values, ", ")
		}
		return ""
	})
}

// integer reads an integer of least to most. What counts is the number, not its spelling: 1.0 and 1e1 are integers, as
// JSON Schema has it; 1.5 is none. Other spellings than digits are read as float64.
func integer(target *int, least, most int) valueReader {
	return func(d *jsontext.Decoder) (string, error) {
		if d.PeekKind() != '0' {
			return skipWrong(d, "must be an integer")
		}
		token, err := d.ReadToken()
		if err != nil {
			return "", err
		}
		value, whole := exactInteger(token.String())
		if !whole {
			return "must be an integer", nil
		}
		*target = value
		return checkRange(value, least, most), nil
	}
}

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
	case err != nil || float != math.Trunc(float):
		return 0, false
	default:
		return int(float), true
	}
}

// unbounded is the "most" of an integer that the specification bounds on one side only.
const unbounded = maxExactInteger

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

// answerMap reads an object of strings, in its order. A duplicate key is a mistake of JSON that syntaxError names.
func answerMap(target *[]attempts.Answer) valueReader {
	return func(d *jsontext.Decoder) (string, error) {
		if d.PeekKind() != '{' {
			return skipWrong(d, "must be an object of strings")
		}
		if _, err := d.ReadToken(); err != nil {
			return "", err
		}
		problem := ""
		for d.PeekKind() == '"' {
			key, err := d.ReadToken()
			if err != nil {
				return "", err
			}
			entry := attempts.Answer{Key: key.String()}
			if d.PeekKind() != '"' {
				problem = fmt.Sprintf("must be an object of strings; the value of %q is none", entry.Key)
				if err := skipValue(d); err != nil {
					return "", err
				}
				continue
			}
			value, err := d.ReadToken()
			if err != nil {
				return "", err
			}
			if entry.Value = value.String(); strings.IndexByte(entry.Key, 0) >= 0 || strings.IndexByte(entry.Value, 0) >= 0 {
				problem = "must not contain U+0000"
			}
			*target = append(*target, entry)
		}
		_, err := d.ReadToken()
		return problem, err
	}
}
