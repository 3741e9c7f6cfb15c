package codec

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/valyala/fasthttp"

	"examprep.dev/server/excerpt"
	"examprep.dev/server/httpapi/apierror"
)

// maxDepth bounds how deep objects and arrays nest in a request body; the interface needs 2.
const maxDepth = 32

// maxMembers bounds the members of one object of a body. A paper has at most 10,000 questions.
const maxMembers = 11_000

// usualNames is the number of names up to which a set is used again for a later object. It takes time to clear a larger one.
const usualNames = 128

const mediaTypeJSON = "application/json"

// ReadBody reads a request's body. It accepts application/json in UTF-8 only: one object, nothing after it, no duplicate name
// at any depth, no invalid UTF-8.
func ReadBody(header *fasthttp.RequestHeader, body []byte) *Fields {
	if err := checkMediaType(header.ContentType()); err != nil {
		return &Fields{invalid: err}
	}
	if encoding := header.ContentEncoding(); len(encoding) > 0 && !strings.EqualFold(string(encoding), "identity") {
		return &Fields{invalid: unsupportedMedia("Request bodies are read without Content-Encoding.")}
	}
	return parseObject(body)
}

// checkMediaType takes application/json, without a charset or with UTF-8; other parameters mean nothing for it.
func checkMediaType(contentType []byte) error {
	if string(contentType) == mediaTypeJSON {
		return nil
	}
	mediaType, parameters, err := mime.ParseMediaType(string(contentType))
	if err != nil || mediaType != mediaTypeJSON {
		return unsupportedMedia("Content-Type must be application/json.")
	}
	if charset, given := parameters["charset"]; given && !strings.EqualFold(charset, "utf-8") {
		return unsupportedMedia("The charset of application/json is utf-8.")
	}
	return nil
}

func unsupportedMedia(detail string) *apierror.Error {
	return apierror.New(fasthttp.StatusUnsupportedMediaType, apierror.CodeUnsupportedMedia, detail)
}

func parseObject(data []byte) *Fields {
	if err := checkJSON(data); err != nil {
		return &Fields{invalid: err}
	}
	fields := new(Fields)
	d := jsontext.NewDecoder(bytes.NewBuffer(data), jsontext.AllowDuplicateNames(true))
	_, _ = d.ReadToken() // the brace; errors were checked for
	for d.PeekKind() == '"' {
		name := readPiece(d, data)
		fields.members = append(fields.members, member{name: name, value: readPiece(d, data)})
	}
	return fields
}

// readPiece reads a value of data, which was checked, and returns it as a piece of data.
func readPiece(d *jsontext.Decoder, data []byte) jsontext.Value {
	value, _ := d.ReadValue()
	end := d.InputOffset()
	return data[end-int64(len(value)) : end]
}

// checkJSON refuses anything but one object that nests at most maxDepth deep, whose objects have at most maxMembers members, each with
// a name of its own.
func checkJSON(data []byte) error {
	// The decoder finds duplicate names too, but takes three times as long for a hundred of them.
	d := jsontext.NewDecoder(bytes.NewBuffer(data), jsontext.AllowDuplicateNames(true))
	text := string(data)
	var names [maxDepth + 1]map[string]bool // of the latest object at each depth
	first := d.PeekKind()
	for open := true; open; open = d.StackDepth() > 0 {
		after := d.InputOffset()
		if _, err := d.ReadToken(); err != nil {
			return syntaxError(err)
		}
		depth := d.StackDepth()
		if depth > maxDepth {
			return syntaxError(fmt.Errorf("nested deeper than %d levels", maxDepth))
		}
		kind, tokens := d.StackIndex(depth) // names and values
		switch known := names[depth]; {
		case kind != '{':
		case tokens == 0 && (known == nil || len(known) > usualNames):
			names[depth] = map[string]bool{}
		case tokens == 0:
			clear(known)
		case tokens > 2*maxMembers:
			return syntaxError(fmt.Errorf("an object has more than %d members", maxMembers))
		case tokens%2 == 1:
			name := nameIn(text[after:d.InputOffset()])
			if known[name] {
				return duplicateName(d.StackPointer())
			}
			known[name] = true
		}
	}
	if first != '{' {
		return apierror.New(fasthttp.StatusBadRequest, apierror.CodeValidationFailed, "The body must be a JSON object.")
	}
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return invalidJSON("Something follows the JSON object, from byte %d on.", d.InputOffset())
	}
	return nil
}

// nameIn returns the name in a text. A comma and spaces can precede the name. It is a piece of the text unless it has an escape.
func nameIn(text string) string {
	quoted := text[strings.IndexByte(text, '"'):]
	if strings.IndexByte(quoted, '\\') >= 0 {
		return unquote(jsontext.Value(quoted))
	}
	return quoted[1 : len(quoted)-1]
}

// syntaxError returns the error for a body that is not JSON.
func syntaxError(err error) *apierror.Error {
	var at *jsontext.SyntacticError
	switch {
	case errors.Is(err, io.EOF):
		return invalidJSON("The body is empty.")
	case !errors.As(err, &at):
		return invalidJSON("The body is not acceptable JSON: %s.", err)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return invalidJSON("The body ends in the middle of JSON.")
	default:
		return invalidJSON("The body is not JSON: %s, at byte %d.", at.Err, at.ByteOffset)
	}
}

func invalidJSON(format string, args ...any) *apierror.Error {
	return apierror.New(fasthttp.StatusBadRequest, apierror.CodeInvalidJSON, fmt.Sprintf(format, args...))
}

// duplicateName returns the error for a name given twice; an answer has a code of its own (docs/spec.md, part 7). The field of
// /a/b is a.b; the empty name has none.
func duplicateName(pointer jsontext.Pointer) *apierror.Error {
	name := excerpt.Quote(pointer.LastToken())
	duplicate := invalidJSON("The name %s is given twice.", name)
	if pointer.Parent() == "/answers" {
		duplicate = apierror.New(fasthttp.StatusBadRequest, apierror.CodeDuplicateAnswerKey,
			fmt.Sprintf("The answer key %s is given twice.", name))
	}
	var path []string
	for token := range pointer.Tokens() {
		path = append(path, excerpt.Text(token))
	}
	if field := strings.Join(path, "."); field != "" {
		duplicate.Fields = []apierror.Field{{Name: field, Detail: "is given twice"}}
	}
	return duplicate
}

// Pairs yields the names and values of an object of strings, in its order. The value of a null is empty.
func (f *Fields) Pairs(name string, yield func(key, value string)) {
	object, given := f.get(name, '{', "must be an object with string values")
	if !given {
		return
	}
	d := jsontext.NewDecoder(bytes.NewBuffer(object.json), jsontext.AllowDuplicateNames(true))
	_, _ = d.ReadToken() // the brace; errors were checked for
	for d.PeekKind() == '"' {
		quoted, _ := d.ReadValue()
		key := unquote(quoted)
		value, _ := d.ReadValue()
		text := ""
		switch value.Kind() {
		case '"':
			text = unquote(value)
		case 'n':
		default:
			f.note(name+"."+excerpt.Text(key), notString)
		}
		if strings.ContainsRune(key, 0) || strings.ContainsRune(text, 0) {
			f.note(name+"."+excerpt.Text(key), hasNUL)
		}
		yield(key, text)
	}
}

// ReadQuery reads the query of a request. A repeated parameter is a problem, and so is a value that is not percent-encoded
// UTF-8. Unknown parameters are ignored, even malformed ones.
func ReadQuery(ctx *fasthttp.RequestCtx) *Fields { return parseQuery(ctx.URI().QueryString()) }

func parseQuery(raw []byte) *Fields {
	values := make(map[string]value)
	for pair := range strings.SplitSeq(string(raw), "&") {
		rawName, rawText, _ := strings.Cut(pair, "=")
		name, err := url.QueryUnescape(rawName)
		if err != nil || pair == "" {
			continue
		}
		text, err := url.QueryUnescape(rawText)
		parameter := value{text: text}
		if _, repeated := values[name]; repeated {
			parameter.problem = "is given more than once"
		} else if err != nil || !utf8.ValidString(text) {
			parameter.problem = "is not percent-encoded UTF-8"
		}
		values[name] = parameter
	}
	return &Fields{values: values}
}
