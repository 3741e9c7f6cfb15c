package openapitest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// An Exchange is a request as far as it decides what may be answered, and the answer.
type Exchange struct {
	// Method and Target (path and query, as they were sent) are empty when the request could not be read, or is unknown.
	Method, Target string
	Status         int
	Header         http.Header
	// Body is the content after its Content-Encoding is undone.
	Body []byte
}

// A Pair is an operation, by its operationId, and a status that it answers.
type Pair struct {
	Operation string
	Status    int
}

func (p Pair) String() string { return fmt.Sprintf("%s %d", p.Operation, p.Status) }

// Check returns what is wrong with an answer by the document, and whose answer it is: the zero Pair when the request
// belongs to no operation.
func (d *Document) Check(e Exchange) (Pair, error) {
	if e.Target == "" && e.Status < http.StatusBadRequest {
		return d.checkAny(e)
	}
	operation, found := d.Operation(e.Method, e.Target)
	if !found {
		return Pair{}, d.checkRefusal(e)
	}
	pair := Pair{operation.ID, e.Status}
	at, response, documented := d.Resolve(operation.at.Child("responses", strconv.Itoa(e.Status)))
	if !documented {
		return pair, fmt.Errorf("%s: the status is not documented", pair)
	}
	if err := d.checkResponse(at, response, e); err != nil {
		return pair, fmt.Errorf("%s: %w", pair, err)
	}
	return pair, nil
}

// checkAny checks an answer to an unknown request: it must be right for some operation, or for OPTIONS.
func (d *Document) checkAny(e Exchange) (Pair, error) {
	faults := []error{d.checkRefusal(Exchange{Method: http.MethodOptions, Status: e.Status, Header: e.Header, Body: e.Body})}
	for _, operation := range d.Operations() {
		at, response, documented := d.Resolve(operation.at.Child("responses", strconv.Itoa(e.Status)))
		if !documented {
			continue
		}
		err := d.checkResponse(at, response, e)
		if err == nil {
			return Pair{}, nil
		}
		faults = append(faults, fmt.Errorf("%s: %w", operation.ID, err))
	}
	if faults[0] == nil {
		return Pair{}, nil
	}
	return Pair{}, errors.Join(faults...)
}

// Operation finds the operation of a request. HEAD is its GET.
func (d *Document) Operation(method, target string) (Operation, bool) {
	path, _, _ := strings.Cut(target, "?")
	if method == http.MethodHead {
		method = http.MethodGet
	}
	for _, template := range d.paths {
		if template.matches(path) {
			return d.operation(template, method)
		}
	}
	return Operation{}, false
}

// transportHeaders are HTTP's own on any answer; a document does not list them.
var transportHeaders = []string{"Connection", "Content-Length", "Content-Type", "Date", "Transfer-Encoding", "Keep-Alive"}

func (d *Document) checkResponse(at Location, response map[string]any, e Exchange) error {
	faults := d.checkHeaders(at, response, e.Header)
	for name := range e.Header {
		if !slices.Contains(transportHeaders, name) && !hasHeader(member(response, "headers"), name) {
			faults = append(faults, fmt.Errorf("the header %s is not documented", name))
		}
	}
	return errors.Join(append(faults, d.checkBody(at, response, e))...)
}

func hasHeader(described map[string]any, name string) bool {
	for known := range described {
		if strings.EqualFold(known, name) {
			return true
		}
	}
	return false
}

func (d *Document) checkHeaders(at Location, response map[string]any, header http.Header) []error {
	var faults []error
	for _, name := range sortedKeys(member(response, "headers")) {
		place, described, found := d.Resolve(at.Child("headers", name))
		if !found {
			faults = append(faults, fmt.Errorf("the header %s is described nowhere", name))
			continue
		}
		values := header.Values(name)
		if isRequired(described) && len(values) == 0 {
			faults = append(faults, fmt.Errorf("the required header %s is missing", name))
		}
		for _, value := range values {
			if err := d.checkText(place.Child("schema"), value); err != nil {
				faults = append(faults, fmt.Errorf("the header %s: %q: %w", name, value, err))
			}
		}
	}
	return faults
}

// checkText checks the text of a header or parameter; where the schema wants a number or a truth, as that.
func (d *Document) checkText(at Location, text string) error {
	schema, err := d.compile(at)
	if err != nil {
		return err
	}
	var value any = text
	_, described, _ := d.Resolve(at)
	switch described["type"] {
	case "integer", "number":
		if _, err := strconv.ParseFloat(text, 64); err == nil {
			value = json.Number(text)
		}
	case "boolean":
		if truth, err := strconv.ParseBool(text); err == nil {
			value = truth
		}
	}
	return schema.Validate(value)
}

func (d *Document) checkBody(at Location, response map[string]any, e Exchange) error {
	content := member(response, "content")
	if len(content) == 0 || e.Method == http.MethodHead || e.Status == http.StatusNotModified {
		if len(e.Body) > 0 {
			return fmt.Errorf("a body of %d bytes where there is none", len(e.Body))
		}
		return nil
	}
	mediaType, _, err := mime.ParseMediaType(e.Header.Get("Content-Type"))
	if err != nil {
		return fmt.Errorf("the Content-Type %q: %w", e.Header.Get("Content-Type"), err)
	}
	if _, documented := content[mediaType]; !documented {
		return fmt.Errorf("the media type %s is not documented", mediaType)
	}
	return errors.Join(d.checkJSON(at.Child("content", mediaType, "schema"), mediaType, e.Body), checkCode(response, e.Body))
}

// checkCode checks that the code of an error is one that its response lists (x-error-codes).
func checkCode(response map[string]any, body []byte) error {
	codes, has := response["x-error-codes"].([]any)
	if !has {
		return nil
	}
	var got struct {
		Error string `json:"error"`
	}
	if err := json.Unmarshal(body, &got); err != nil {
		return fmt.Errorf("the body: %w", err)
	}
	if !slices.Contains(codes, any(got.Error)) {
		return fmt.Errorf("the response does not list the error %q", got.Error)
	}
	return nil
}

// checkJSON checks a JSON body by the schema at a location. Other media types are not looked into.
func (d *Document) checkJSON(at Location, mediaType string, body []byte) error {
	if mediaType != "application/json" {
		return nil
	}
	schema, err := d.compile(at)
	if err != nil {
		return err
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("the body is not JSON: %w: %s", err, abbreviate(body))
	}
	if err := schema.Validate(value); err != nil {
		return fmt.Errorf("the body: %w: %s", err, abbreviate(body))
	}
	return nil
}

// checkRefusal checks an answer that belongs to no operation: an Error with the headers that every answer has. The
// answer to OPTIONS is not an error, but lists the allowed methods, as a 405 does.
func (d *Document) checkRefusal(e Exchange) error {
	var faults []error
	for _, name := range d.shared() {
		if e.Header.Get(name) == "" {
			faults = append(faults, fmt.Errorf("the header %s of every answer is missing", name))
		}
	}
	allowed := e.Method == http.MethodOptions && e.Status == http.StatusNoContent
	if (allowed || e.Status == http.StatusMethodNotAllowed) && e.Header.Get("Allow") == "" {
		faults = append(faults, errors.New("the header Allow is missing"))
	}
	switch {
	case allowed, e.Method == http.MethodHead:
		if len(e.Body) > 0 {
			faults = append(faults, fmt.Errorf("a body of %d bytes where there is none", len(e.Body)))
		}
	case e.Status < http.StatusBadRequest:
		faults = append(faults, errors.New("no such operation is documented"))
	default:
		if got := e.Header.Get("Content-Type"); got != "application/json" {
			faults = append(faults, fmt.Errorf("the Content-Type is %q", got))
		}
		faults = append(faults, d.checkJSON(errorSchema, "application/json", e.Body))
	}
	if err := errors.Join(faults...); err != nil {
		return fmt.Errorf("%d to %s %s: %w", e.Status, e.Method, e.Target, err)
	}
	return nil
}

const errorSchema Location = "/components/schemas/Error"

func (d *Document) findShared() []string {
	var shared []string
	first := true
	for _, operation := range d.Operations() {
		for _, status := range operation.Statuses {
			at, response, _ := d.Resolve(operation.at.Child("responses", strconv.Itoa(status)))
			var required []string
			for name := range member(response, "headers") {
				if _, described, _ := d.Resolve(at.Child("headers", name)); isRequired(described) {
					required = append(required, http.CanonicalHeaderKey(name))
				}
			}
			if first {
				shared, first = required, false
				continue
			}
			shared = slices.DeleteFunc(shared, func(name string) bool { return !slices.Contains(required, name) })
		}
	}
	slices.Sort(shared)
	return shared
}

func abbreviate(body []byte) string {
	const most = 600
	if len(body) <= most {
		return string(body)
	}
	return string(body[:most]) + "…"
}

func itoa(i int) string { return strconv.Itoa(i) }
