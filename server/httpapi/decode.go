package httpapi

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/valyala/fasthttp"
)

// maxDepth is how deep objects and arrays may nest in a request body; the interface needs 2.
const maxDepth = 32

// A jsonBody is the JSON object of a request. A getter sets its target if the field is there, and notes what is wrong with
// it. Unknown fields are ignored (docs/spec.md, part 9, requires the same of clients).
type jsonBody struct {
	values  map[string]jsontext.Value
	invalid error // why the body is not read at all
	problems
}

// readJSON is strict where a lenient reader would guess: Content-Type application/json in UTF-8, one object and nothing
// after it, no duplicate name at any depth, no invalid UTF-8.
func readJSON(request *fasthttp.Request) *jsonBody {
	if err := checkMediaType(request.Header.ContentType()); err != nil {
		return &jsonBody{invalid: err}
	}
	if encoding := request.Header.ContentEncoding(); len(encoding) > 0 && !strings.EqualFold(string(encoding), "identity") {
		return &jsonBody{invalid: unsupportedMedia("Request bodies are read without Content-Encoding.")}
	}
	return parseObject(request.Body())
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

func parseObject(data []byte) *jsonBody {
	body := new(jsonBody)
	if err := checkJSON(data); err != nil {
		body.invalid = err
	} else if err := json.Unmarshal(data, &body.values); err != nil {
		body.invalid = syntaxError(err)
	}
	return body
}

// checkJSON refuses anything but one object that nests at most maxDepth deep.
func checkJSON(data []byte) error {
	d := jsontext.NewDecoder(bytes.NewBuffer(data))
	first := d.PeekKind()
	for {
		if _, err := d.ReadToken(); err != nil {
			return syntaxError(err)
		}
		if d.StackDepth() > maxDepth {
			return syntaxError(fmt.Errorf("nested deeper than %d levels", maxDepth))
		}
		if d.StackDepth() == 0 {
			break
		}
	}
	if first != '{' {
		return &apiError{status: fasthttp.StatusBadRequest, code: codeValidationFailed, detail: "The body must be a JSON object."}
	}
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return invalidJSON(fmt.Sprintf("Something follows the JSON object, from byte %d on.", d.InputOffset()))
	}
	return nil
}

// syntaxError returns the error for a body that is not JSON. A repeated answer has a code of its own (docs/spec.md, part 7).
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
		// Fields are named a.b, not /a/b. The empty name names none.
		if path := strings.Join(slices.Collect(at.JSONPointer.Tokens()), "."); path != "" {
			duplicate.fields = []fieldError{{path, "is given twice"}}
		}
		return duplicate
	case errors.Is(err, io.ErrUnexpectedEOF):
		return invalidJSON("The body ends in the middle of JSON.")
	default:
		return invalidJSON(fmt.Sprintf("The body is not JSON: %s, at byte %d.", at.Err, at.ByteOffset))
	}
}

// check returns why the request is refused, if it is. Required fields that are missing come last.
func (b *jsonBody) check(required ...string) error {
	if b.invalid != nil {
		return b.invalid
	}
	for _, name := range required {
		if _, given := b.values[name]; !given {
			b.note(name, "is required")
		}
	}
	return b.err()
}

// get returns nil for a field that is missing, or of another kind.
func (b *jsonBody) get(name string, kind jsontext.Kind, otherKind string) jsontext.Value {
	value, given := b.values[name]
	if given && value.Kind() != kind {
		b.note(name, otherKind)
		return nil
	}
	return value
}

// text reads a string of least to most characters, and reports whether there is one.
func (b *jsonBody) text(name string, target *string, least, most int) bool {
	value := b.get(name, '"', "must be a string")
	if value == nil {
		return false
	}
	*target = unquote(value)
	b.note(name, checkLength(*target, least, most))
	return true
}

// unquote returns the text of a JSON string that was checked.
func unquote(value jsontext.Value) string {
	text, _ := jsontext.AppendUnquote(nil, value)
	return string(text)
}

// oneOf reads one of a few strings.
func (b *jsonBody) oneOf(name string, target *string, values ...string) {
	if value := b.get(name, '"', "must be a string"); value != nil {
		if *target = unquote(value); !slices.Contains(values, *target) {
			b.note(name, "must be one of "+strings.Join(values, ", "))
		}
	}
}

// integer reads an integer of least to most. The number counts, not its spelling: 1.0 and 1e1 are integers, as JSON
// Schema has it.
func (b *jsonBody) integer(name string, target *int, least, most int) {
	const notInteger = "must be an integer"
	if value := b.get(name, '0', notInteger); value != nil {
		number, whole := exactInteger(string(value))
		if *target = number; !whole {
			b.note(name, notInteger)
		} else {
			b.note(name, checkRange(number, least, most))
		}
	}
}

// timestamp reads an RFC 3339 time; nil if there is none.
func (b *jsonBody) timestamp(name string) *time.Time {
	const notTime = "must be an RFC 3339 time"
	value := b.get(name, '"', notTime)
	if value == nil {
		return nil
	}
	at, isTime := parseTime(unquote(value))
	if !isTime {
		b.note(name, notTime)
	}
	return &at
}

// list reads an array of at most so many strings. An empty one is not nil.
func (b *jsonBody) list(name string, most int) (list []string) {
	const notStrings = "must be an array of strings"
	value := b.get(name, '[', notStrings)
	if value == nil {
		return nil
	}
	var elements []jsontext.Value
	switch err := json.Unmarshal(value, &elements); {
	case err != nil, slices.ContainsFunc(elements, func(v jsontext.Value) bool { return v.Kind() != '"' }):
		b.note(name, notStrings)
	case len(elements) > most:
		b.note(name, "has too many elements")
	default:
		list = mapped(elements, unquote)
	}
	return list
}

// pairs yields the names and values of an object of strings, in its order.
func (b *jsonBody) pairs(name string, yield func(key, value string)) {
	object := b.get(name, '{', "must be an object of strings")
	if object == nil {
		return
	}
	problem := ""
	d := jsontext.NewDecoder(bytes.NewBuffer(object))
	_, _ = d.ReadToken() // the brace; errors were checked for
	for d.PeekKind() == '"' {
		token, _ := d.ReadToken()
		key := token.String()
		value, _ := d.ReadValue()
		if value.Kind() != '"' {
			problem = fmt.Sprintf("must be an object of strings; the value of %q is none", key)
			continue
		}
		text := unquote(value)
		if strings.ContainsRune(key+text, 0) {
			problem = "must not contain U+0000"
		}
		yield(key, text)
	}
	b.note(name, problem)
}

// mapped returns f of each element.
func mapped[S, T any](list []S, f func(S) T) []T {
	results := make([]T, len(list))
	for i, element := range list {
		results[i] = f(element)
	}
	return results
}
