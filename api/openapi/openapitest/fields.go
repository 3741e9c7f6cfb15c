package openapitest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// A Field is what a request may give: a property of its body, or a query parameter.
type Field struct {
	Name     string
	InBody   bool
	Required bool

	schema Location
}

// Fields are the query parameters of an operation, its path's included, and the properties of its JSON body.
func (d *Document) Fields(o Operation) []Field {
	var fields []Field
	path := o.at[:strings.LastIndexByte(string(o.at), '/')]
	for _, parameters := range []Location{path.Child("parameters"), o.at.Child("parameters")} {
		list, _ := d.at(parameters).([]any)
		for i := range list {
			at, parameter, _ := d.Resolve(parameters.Child(itoa(i)))
			if name, _ := parameter["name"].(string); parameter["in"] == "query" {
				fields = append(fields, Field{Name: name, Required: isRequired(parameter), schema: at.Child("schema")})
			}
		}
	}
	at, _, found := d.Resolve(o.at.Child("requestBody"))
	if !found {
		return fields
	}
	at, body, _ := d.Resolve(at.Child("content", "application/json", "schema"))
	required, _ := body["required"].([]any)
	for _, name := range sortedKeys(member(body, "properties")) {
		fields = append(fields, Field{
			Name: name, InBody: true, Required: slices.Contains(required, any(name)), schema: at.Child("properties", name),
		})
	}
	return fields
}

// Default returns the default of a field as JSON, or "" if the document has none.
func (d *Document) Default(f Field) string {
	_, schema, _ := d.Resolve(f.schema)
	value, has := schema["default"]
	if !has {
		value, has = schema["x-default"]
	}
	if !has {
		return ""
	}
	text, err := json.Marshal(value)
	if err != nil {
		return ""
	}
	return string(text)
}

// A Trial is a value of a field, and whether the document allows it.
type Trial struct {
	// Value is JSON for a property of a body, and the text of a query parameter.
	Value   string
	Allowed bool
}

// Trials are values of a field at its limits: the last that is allowed and the first that is not, of each length, bound,
// format and type that its schema names, and of other types. The schema itself is the judge of each.
func (d *Document) Trials(f Field) ([]Trial, error) {
	_, schema, _ := d.Resolve(f.schema)
	var trials []Trial
	for _, candidate := range d.candidates(schema) {
		text, err := json.Marshal(candidate)
		if err != nil {
			return nil, fmt.Errorf("field %s: %w", f.Name, err)
		}
		trial := Trial{Value: string(text)}
		if f.InBody {
			trial.Allowed, err = d.allows(f.schema, text)
			trial.Allowed = trial.Allowed || candidate == nil && !f.Required // null stands for an absent field
		} else if trial.Value, err = queryText(candidate); err == nil {
			trial.Allowed = d.checkText(f.schema, trial.Value) == nil
		}
		if err == nil && !slices.Contains(trials, trial) {
			trials = append(trials, trial)
		}
	}
	return trials, nil
}

func (d *Document) allows(at Location, text []byte) (bool, error) {
	schema, err := d.compile(at)
	if err != nil {
		return false, err
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return false, err
	}
	if object, is := value.(map[string]any); is { // null stands for an absent member
		maps.DeleteFunc(object, func(_ string, member any) bool { return member == nil })
	}
	return schema.Validate(value) == nil, nil
}

// queryText is how a value is written in a query; arrays, objects and null are not.
func queryText(value any) (string, error) {
	switch value := value.(type) {
	case string:
		return value, nil
	case bool, json.Number:
		return fmt.Sprint(value), nil
	default:
		return "", fmt.Errorf("%T has no form in a query", value)
	}
}

func (d *Document) candidates(schema map[string]any) []any {
	all := []any{nil, true, false, "", "x", json.Number("7"), json.Number("1.5"), json.Number("-1"), []any{}, []any{nil}, map[string]any{}}
	if values, is := schema["enum"].([]any); is {
		for _, value := range values {
			all = append(all, value, strings.ToUpper(fmt.Sprint(value)), fmt.Sprint(value)+" ")
		}
	}
	switch schema["type"] {
	case "string":
		all = append(all, texts(schema)...)
	case "integer", "number":
		all = append(all, numbers(schema)...)
	case "array":
		all = append(all, d.arrays(schema)...)
	case "object":
		all = append(all, d.objects(schema)...)
	}
	return all
}

// formats are beginnings of texts of a format that may grow, and texts that may not.
var formats = map[string]struct{ grow, whole []string }{
	"uri": {
		grow:  []string{"https://receiver.example.com/", "http://receiver.example.com/"},
		whole: []string{"https://", "receiver.example.com", "/relative", "ftp://receiver.example.com", "https://receiver.example.com/a b"},
	},
	"date-time": {whole: []string{
		"2999-01-02T03:04:05Z", "2999-01-02T03:04:05.123456Z", "2999-01-02T03:04:05+14:00", "2999-02-30T03:04:05Z",
		"2999-01-02T03:04:05", "2999-01-02", "2999-01-02 03:04:05Z", "2999-01-02T3:04:05Z", "2999-01-02T25:04:05Z", "32472147845",
	}},
	"date": {whole: []string{"2999-02-30", "2999-1-2", "29990102", "2999-01-02T00:00:00Z", "today"}},
	"uuid": {whole: []string{"0197a3a2-0000-7000-8000-00000000000", "0197a3a2-0000-7000-8000-00000000000g"}},
}

// shortLengths are tried of all letters, for the patterns of short names.
var shortLengths = []int{1, 2, 3}

// texts are of every length around the limits, of letters of one to four bytes: a length counts characters.
func texts(schema map[string]any) []any {
	var all []any
	lengths := slices.Clone(shortLengths)
	for _, keyword := range []string{"minLength", "maxLength"} {
		if limit, has := number(schema[keyword]); has {
			lengths = append(lengths, max(int(limit)-1, 0), int(limit), int(limit)+1)
		}
	}
	name, _ := schema["format"].(string)
	format := formats[name]
	for _, text := range format.whole {
		all = append(all, text)
	}
	if name == "date" {
		all = append(all, time.Now().UTC().Format(time.DateOnly)) // a date that is neither in the future nor long past
	}
	for _, length := range lengths {
		for _, letter := range []string{"a", "Z", "0", "é", "😀"} {
			if length <= len(shortLengths) || letter == "a" || letter == "😀" {
				all = append(all, strings.Repeat(letter, length))
			}
		}
		for _, beginning := range format.grow {
			if rest := length - len(beginning); rest >= 0 {
				all = append(all, beginning+strings.Repeat("a", rest))
			}
		}
	}
	return all
}

func numbers(schema map[string]any) []any {
	all := []any{json.Number("9007199254740992"), json.Number("-9007199254740992"), json.Number("1000000000000000000000")}
	for _, keyword := range []string{"minimum", "maximum"} {
		if limit, has := number(schema[keyword]); has {
			for _, near := range []int64{limit - 1, limit, limit + 1} {
				all = append(all, json.Number(strconv.FormatInt(near, 10)))
			}
			all = append(all, strconv.FormatInt(limit, 10))
		}
	}
	return all
}

func number(keyword any) (int64, bool) {
	text, is := keyword.(json.Number)
	if !is {
		return 0, false
	}
	value, parsed := new(big.Rat).SetString(text.String())
	if !parsed || !value.IsInt() || !value.Num().IsInt64() {
		return 0, false
	}
	return value.Num().Int64(), true
}

// arrays are of one to one element more than there may be, of good elements, of one twice, and with each bad one.
func (d *Document) arrays(schema map[string]any) []any {
	items, _ := d.resolveWithin(schema["items"])
	good, _ := items["enum"].([]any)
	var all []any
	for i := range good {
		all = append(all, good[:i+1], []any{good[i], good[i]})
	}
	if limit, has := number(schema["maxItems"]); has && len(good) > 0 {
		all = append(all, slices.Repeat(good, int(limit)/len(good)+1))
	}
	for _, bad := range d.candidates(items) {
		all = append(all, []any{bad})
	}
	return all
}

// objects have one member, whose value is each candidate of its schema. Only the test that
// calls it uses the name: it is the ID of a question.
func (d *Document) objects(schema map[string]any) []any {
	values, found := d.resolveWithin(schema["additionalProperties"])
	if !found {
		return nil
	}
	var all []any
	for _, value := range d.candidates(values) {
		all = append(all, map[string]any{MemberName: value})
	}
	return all
}

// MemberName is the name of the one member of objects in trials.
const MemberName = "2:2"

// resolveWithin is Resolve for a schema that is part of another.
func (d *Document) resolveWithin(schema any) (map[string]any, bool) {
	object, is := schema.(map[string]any)
	if reference, refers := object["$ref"].(string); refers {
		_, object, is = d.Resolve(Location(strings.TrimPrefix(reference, "#")))
	}
	return object, is
}
