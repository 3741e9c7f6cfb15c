package codec

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

	"examprep.dev/server/httpapi/apierror"
)

const (
	mediaTypeJSON = "application/json"
	// maxDepth bounds how deep objects and arrays nest in a request body; the interface needs 2.
	maxDepth = 32
)

// Body is the JSON object of a request. A getter sets its target if the field is present, and notes what is wrong with it.
// Unknown fields are ignored, as docs/spec.md, part 9, requires of clients.
type Body struct {
	values  map[string]jsontext.Value
	invalid error // why the body is not read at all
	problems
}

// ReadBody reads a request's body. It accepts application/json in UTF-8 only: one object, nothing after it, no duplicate name
// at any depth, no invalid UTF-8.
func ReadBody(request *fasthttp.Request) *Body {
	if err := checkMediaType(request.Header.ContentType()); err != nil {
		return &Body{invalid: err}
	}
	if encoding := request.Header.ContentEncoding(); len(encoding) > 0 && !strings.EqualFold(string(encoding), "identity") {
		return &Body{invalid: apierror.UnsupportedMedia("Request bodies are read without Content-Encoding.")}
	}
	return parseObject(request.Body())
}

// checkMediaType takes application/json, without a charset or with UTF-8; other parameters mean nothing for it.
func checkMediaType(contentType []byte) error {
	if string(contentType) == mediaTypeJSON {
		return nil
	}
	mediaType, parameters, err := mime.ParseMediaType(string(contentType))
	if err != nil || mediaType != mediaTypeJSON {
		return apierror.UnsupportedMedia("Content-Type must be application/json.")
	}
	if charset, given := parameters["charset"]; given && !strings.EqualFold(charset, "utf-8") {
		return apierror.UnsupportedMedia("The charset of application/json is utf-8.")
	}
	return nil
}

func parseObject(data []byte) *Body {
	body := new(Body)
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
		return &apierror.Error{Status: fasthttp.StatusBadRequest, Code: apierror.CodeValidationFailed, Detail: "The body must be a JSON object."}
	}
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return apierror.InvalidJSON(fmt.Sprintf("Something follows the JSON object, from byte %d on.", d.InputOffset()))
	}
	return nil
}

// syntaxError returns the error for a body that is not JSON. A repeated answer has a code of its own (docs/spec.md, part 7).
func syntaxError(err error) *apierror.Error {
	var at *jsontext.SyntacticError
	switch {
	case errors.Is(err, io.EOF):
		return apierror.InvalidJSON("The body is empty.")
	case !errors.As(err, &at):
		return apierror.InvalidJSON("The body is not acceptable JSON: " + err.Error() + ".")
	case errors.Is(err, jsontext.ErrDuplicateName):
		name := at.JSONPointer.LastToken()
		if at.JSONPointer.Parent() == "/answers" {
			return &apierror.Error{
				Status: fasthttp.StatusBadRequest, Code: apierror.CodeDuplicateAnswerKey,
				Detail: fmt.Sprintf("The answer key %q is given twice.", name),
				Fields: []apierror.Field{{Name: "answers." + name, Detail: "is given twice"}},
			}
		}
		duplicate := apierror.InvalidJSON(fmt.Sprintf("The name %q is given twice.", name))
		// Fields are named a.b, not /a/b. The empty name names none.
		if path := strings.Join(slices.Collect(at.JSONPointer.Tokens()), "."); path != "" {
			duplicate.Fields = []apierror.Field{{Name: path, Detail: "is given twice"}}
		}
		return duplicate
	case errors.Is(err, io.ErrUnexpectedEOF):
		return apierror.InvalidJSON("The body ends in the middle of JSON.")
	default:
		return apierror.InvalidJSON(fmt.Sprintf("The body is not JSON: %s, at byte %d.", at.Err, at.ByteOffset))
	}
}

// Check returns the error of the request, nil if there is none. Required fields that are missing come last.
func (b *Body) Check(required ...string) error {
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
func (b *Body) get(name string, kind jsontext.Kind, otherKind string) jsontext.Value {
	value, given := b.values[name]
	if given && value.Kind() != kind {
		b.note(name, otherKind)
		return nil
	}
	return value
}

// Text reads a string of least to most characters, and reports whether there is one.
func (b *Body) Text(name string, target *string, low, high int) bool {
	given := b.Opaque(name, target, low, high)
	if given && strings.ContainsRune(*target, 0) {
		b.note(name, hasNUL)
	}
	return given
}

// Opaque is Text that admits U+0000: its value is not stored as text.
func (b *Body) Opaque(name string, target *string, low, high int) bool {
	value := b.get(name, '"', "must be a string")
	if value == nil {
		return false
	}
	*target = unquote(value)
	b.note(name, checkLength(*target, low, high))
	return true
}

// unquote returns the text of a JSON string that was checked.
func unquote(value jsontext.Value) string {
	text, _ := jsontext.AppendUnquote(nil, value)
	return string(text)
}

// OneOf reads one of a few strings.
func (b *Body) OneOf(name string, target *string, values ...string) {
	if value := b.get(name, '"', "must be a string"); value != nil {
		if *target = unquote(value); !slices.Contains(values, *target) {
			b.note(name, "must be one of "+strings.Join(values, ", "))
		}
	}
}

// Integer reads an integer of low to high. The number counts, not its spelling: 1.0 and 1e1 are integers, as JSON
// Schema has it.
func (b *Body) Integer(name string, target *int, low, high int) {
	const notInteger = "must be an integer"
	if value := b.get(name, '0', notInteger); value != nil {
		number, whole := exactInteger(string(value))
		if *target = number; !whole {
			b.note(name, notInteger)
		} else {
			b.note(name, checkRange(number, low, high))
		}
	}
}

// Time reads an RFC 3339 time; nil if there is none.
func (b *Body) Time(name string) *time.Time {
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

// Strings reads an array of at most high strings. The result is nil if there is none, and not nil if it is empty.
func (b *Body) Strings(name string, high int) (list []string) {
	const notStrings = "must be an array of strings"
	value := b.get(name, '[', notStrings)
	if value == nil {
		return nil
	}
	var elements []jsontext.Value
	switch err := json.Unmarshal(value, &elements); {
	case err != nil, slices.ContainsFunc(elements, func(v jsontext.Value) bool { return v.Kind() != '"' }):
		b.note(name, notStrings)
	case len(elements) > high:
		b.note(name, "has too many elements")
	default:
		list = make([]string, len(elements))
		for i, element := range elements {
			list[i] = unquote(element)
		}
	}
	return list
}

// Pairs yields the names and values of an object of strings, in its order.
func (b *Body) Pairs(name string, yield func(key, value string)) {
	object := b.get(name, '{', "must be an object with string values")
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
			problem = fmt.Sprintf("must be an object with string values; the value of %q is not a string", key)
			continue
		}
		text := unquote(value)
		if strings.ContainsRune(key+text, 0) {
			problem = hasNUL
		}
		yield(key, text)
	}
	b.note(name, problem)
}
