package codec

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/valyala/fasthttp"
	"pgregory.net/rapid"

	"examprep.dev/server/httpapi/apierror"
	"examprep.dev/server/testkit/check"
)

type pair struct{ Key, Value string }

type sampleBody struct {
	Name    string
	Count   int
	Status  string
	Answers []pair
}

func (b *sampleBody) read(data []byte) error {
	body := parseObject(data)
	body.Text("name", &b.Name, 2, 5)
	body.Integer("count", &b.Count, 0, 20)
	body.OneOf("status", &b.Status, "submitted", "expired")
	body.Pairs("answers", func(key, value string) { b.Answers = append(b.Answers, pair{Key: key, Value: value}) })
	return body.Check("name")
}

func TestBodiesAreReadExactly(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, body string
		want       sampleBody
	}{
		{
			"all fields", `{"name":"abc","count":3,"status":"expired","answers":{"1:2":"B","1":""}}`,
			sampleBody{"abc", 3, "expired", []pair{{Key: "1:2", Value: "B"}, {Key: "1", Value: ""}}},
		},
		{
			"answers keep their order", `{"name":"abc","answers":{"9":"a","1":"b","5":"c"}}`,
			sampleBody{Name: "abc", Answers: []pair{{Key: "9", Value: "a"}, {Key: "1", Value: "b"}, {Key: "5", Value: "c"}}},
		},
		{"escapes", `{"name":"\u00e9\ud83d\ude00"}`, sampleBody{Name: "é😀"}},
		{"an escaped name", `{"n\u0061me":"abc"}`, sampleBody{Name: "abc"}},
		{"characters are counted, not bytes", `{"name":"ééééé"}`, sampleBody{Name: "ééééé"}},
		{"white space", " \n{ \"name\" : \"abc\" }\t\r\n", sampleBody{Name: "abc"}},
		{
			"null is absent, or empty among strings", `{"name":"abc","count":null,"status":null,"answers":{"9:9":null,"1":"a"}}`,
			sampleBody{Name: "abc", Answers: []pair{{Key: "9:9"}, {Key: "1", Value: "a"}}},
		},
		{"null answers", `{"name":"abc","answers":null}`, sampleBody{Name: "abc"}},
		{"unknown fields", `{"name":"abc","more":{"a":[1,{"b":null}]},"x":1e999}`, sampleBody{Name: "abc"}},
		{"an integer in another spelling", `{"name":"abc","count":1.0e1}`, sampleBody{Name: "abc", Count: 10}},
		{"minus nothing", `{"name":"abc","count":-0}`, sampleBody{Name: "abc"}},
		{"a name in several objects", `{"name":"abc", "x":[{"a":1}, {"a":1}],"y":{"name":{"name":1}}}`, sampleBody{Name: "abc"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got sampleBody
			check.NoErrorf(t, got.read([]byte(c.body)), "refused")
			if !reflect.DeepEqual(got, c.want) {
				t.Errorf("read %+v, want %+v", got, c.want)
			}
		})
	}
}

type badBody struct {
	name, body string
	code       string
	field      string // the first that is named, if the case is about that
}

func checkBadBodies(t *testing.T, bodies []badBody) {
	t.Helper()
	for _, c := range bodies {
		t.Run(c.name, func(t *testing.T) {
			var got sampleBody
			err := got.read([]byte(c.body))
			var refusal *apierror.Error
			if !errors.As(err, &refusal) || refusal.Code != c.code || refusal.Status != fasthttp.StatusBadRequest {
				t.Fatalf("error = %v, want %s", err, c.code)
			}
			if c.field != "" && (len(refusal.Fields) == 0 || refusal.Fields[0].Name != c.field) {
				t.Errorf("fields = %v, want %s named", refusal.Fields, c.field)
			}
			if refusal.Detail == "" {
				t.Error("there is no detail")
			}
		})
	}
}

func TestBodiesThatAreNotJSONAreRefused(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("[", maxDepth) + strings.Repeat("]", maxDepth)
	checkBadBodies(t, []badBody{
		{"empty", ``, apierror.CodeInvalidJSON, ""},
		{"white space only", "  \n", apierror.CodeInvalidJSON, ""},
		{"cut off", `{"name":"ab`, apierror.CodeInvalidJSON, ""},
		{"not closed", `{"name":"abc"`, apierror.CodeInvalidJSON, ""},
		{"trailing comma", `{"name":"abc",}`, apierror.CodeInvalidJSON, ""},
		{"trailing bytes", `{"name":"abc"}x`, apierror.CodeInvalidJSON, ""},
		{"two values", `{"name":"abc"}{"name":"abc"}`, apierror.CodeInvalidJSON, ""},
		{"trailing NUL", "{\"name\":\"abc\"}\x00", apierror.CodeInvalidJSON, ""},
		{"byte order mark", "\ufeff{\"name\":\"abc\"}", apierror.CodeInvalidJSON, ""},
		{"invalid UTF-8", "{\"name\":\"ab\xff\"}", apierror.CodeInvalidJSON, ""},
		{"invalid UTF-8 in an unknown field", "{\"name\":\"abc\",\"x\":\"\xc3\"}", apierror.CodeInvalidJSON, ""},
		{"half a surrogate pair", `{"name":"\ud83d"}`, apierror.CodeInvalidJSON, ""},
		{"duplicate name", `{"name":"abc","name":"abc"}`, apierror.CodeInvalidJSON, "name"},
		{"duplicate name, escaped", `{"name":"abc","n\u0061me":"abc"}`, apierror.CodeInvalidJSON, "name"},
		{"duplicate empty name", `{"name":"abc","":1,"":1}`, apierror.CodeInvalidJSON, ""},
		{"duplicate unknown name", `{"name":"abc","x":{"y":{"z":1,"z":1}}}`, apierror.CodeInvalidJSON, "x.y.z"},
		{"duplicate name in an array", `{"name":"abc","x":[{"a\"":1, "a\"":2}]}`, apierror.CodeInvalidJSON, `x.0.a"`},
		{"duplicate answers", `{"name":"abc","answers":{},"answers":{}}`, apierror.CodeInvalidJSON, "answers"},
		{"duplicate answer", `{"name":"abc","answers":{"1:2":"A","1:2":"A"}}`, apierror.CodeDuplicateAnswerKey, "answers.1:2"},
		{"nested too deep", `{"name":"abc","x":` + deep + `}`, apierror.CodeInvalidJSON, ""},
		{"single quotes", `{'name':'abc'}`, apierror.CodeInvalidJSON, ""},
		{"NaN", `{"name":"abc","count":NaN}`, apierror.CodeInvalidJSON, ""},
		{"leading zero", `{"name":"abc","count":01}`, apierror.CodeInvalidJSON, ""},
		{"control character", "{\"name\":\"a\nc\"}", apierror.CodeInvalidJSON, ""},
	})
}

func TestBodiesWithAnotherContentAreRefused(t *testing.T) {
	t.Parallel()
	checkBadBodies(t, []badBody{
		{"an array", `["name"]`, apierror.CodeValidationFailed, ""},
		{"null", `null`, apierror.CodeValidationFailed, ""},
		{"missing", `{}`, apierror.CodeValidationFailed, "name"},
		{"a name twice, once null", `{"name":"abc","count":null,"count":3}`, apierror.CodeInvalidJSON, "count"},
		{"null is missing", `{"name":null}`, apierror.CodeValidationFailed, "name"},
		{"a number is no string", `{"name":123}`, apierror.CodeValidationFailed, "name"},
		{"too short", `{"name":"a"}`, apierror.CodeValidationFailed, "name"},
		{"too long", `{"name":"abcdef"}`, apierror.CodeValidationFailed, "name"},
		{"U+0000", `{"name":"a\u0000b"}`, apierror.CodeValidationFailed, "name"},
		{"a string is no integer", `{"name":"abc","count":"3"}`, apierror.CodeValidationFailed, "count"},
		{"a fraction", `{"name":"abc","count":1.5}`, apierror.CodeValidationFailed, "count"},
		{"too small", `{"name":"abc","count":-1}`, apierror.CodeValidationFailed, "count"},
		{"too large", `{"name":"abc","count":21}`, apierror.CodeValidationFailed, "count"},
		{"huge", `{"name":"abc","count":99999999999999999999}`, apierror.CodeValidationFailed, "count"},
		{"beyond every float", `{"name":"abc","count":1e999}`, apierror.CodeValidationFailed, "count"},
		{"not one of", `{"name":"abc","status":"done"}`, apierror.CodeValidationFailed, "status"},
		{"answers as a list", `{"name":"abc","answers":["A"]}`, apierror.CodeValidationFailed, "answers"},
		{"an answer that is no string", `{"name":"abc","answers":{"1":["A"],"2":"B"}}`, apierror.CodeValidationFailed, "answers.1"},
		{"an answer with U+0000", `{"name":"abc","answers":{"1":"\u0000"}}`, apierror.CodeValidationFailed, "answers.1"},
	})
}

func TestEveryFieldAtFaultIsNamed(t *testing.T) {
	t.Parallel()
	var got sampleBody
	err := got.read([]byte(`{"count":"x","status":7,"answers":{"1":2,"2":"A","3":true}}`))
	var refusal *apierror.Error
	if !errors.As(err, &refusal) {
		t.Fatal(err)
	}
	names := make([]string, 0, len(refusal.Fields))
	for _, field := range refusal.Fields {
		names = append(names, field.Name)
	}
	if want := []string{"count", "status", "answers.1", "answers.3", "name"}; !reflect.DeepEqual(names, want) {
		t.Errorf("fields = %v, want %v", names, want)
	}
}

func TestMediaTypes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		contentType string
		accepted    bool
	}{
		{"application/json", true},
		{"Application/JSON", true},
		{"application/json; charset=utf-8", true},
		{`application/json;charset="UTF-8"`, true},
		{"application/json; profile=x", true},
		{"", false},
		{"text/json", false},
		{"application/json; charset=latin1", false},
		{"application/json; charset=", false},
		{"application/x-www-form-urlencoded", false},
		{"application/json, application/json", false},
		{"application/problem+json", false},
	} {
		if err := checkMediaType([]byte(c.contentType)); (err == nil) != c.accepted {
			t.Errorf("%q: error = %v", c.contentType, err)
		}
	}
}

// TestAnswersSurviveAnySpelling: whatever strings a client uses as keys and values arrive as they are.
func TestAnswersSurviveAnySpelling(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		plain := rapid.StringOf(rapid.Rune().Filter(func(r rune) bool { return r != 0 && r != '\ufffd' && (r < 0xd800 || r > 0xdfff) }))
		keys := rapid.SliceOfNDistinct(plain, 0, 8, rapid.ID[string]).Draw(t, "keys")
		var want []pair
		body := []byte(`{"name":"abc","answers":{`)
		for i, key := range keys {
			if i > 0 {
				body = append(body, ',')
			}
			value := plain.Draw(t, "value")
			body, _ = jsontext.AppendQuote(body, key)
			body, _ = jsontext.AppendQuote(append(body, ':'), value)
			want = append(want, pair{Key: key, Value: value})
		}
		var got sampleBody
		check.NoError(t, got.read(append(body, "}}"...)))
		if !reflect.DeepEqual(got.Answers, want) {
			t.Fatalf("read %q, want %q", got.Answers, want)
		}
	})
}

func FuzzDecodeBody(f *testing.F) {
	for _, seed := range []string{
		`{"name":"abc","count":3,"status":"expired","answers":{"1:2":"B"}}`, `{"name":"\ud83d\ude00","x":[[[{}]]]}`,
		`{"answers":{"1":"A","1":"B"}}`, `{"a":[{"b":1},{"b":1}], "c":{"a":{},"\u0062":2}}`, `{"name":1e999,"count":-0.0}`, "\ufeff{}", `[[[[`, `{"a":`, ``,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var got sampleBody
		err := got.read(body)
		if refused := checkJSON(body); refused == nil && !jsontext.Value(body).IsValid() {
			t.Fatal("admitted what is no JSON, or has a name twice")
		}
		if err == nil {
			if n := len([]rune(got.Name)); n < 2 || n > 5 || got.Count < 0 || got.Count > 20 {
				t.Fatalf("admitted %+v", got)
			}
			return
		}
		var refusal *apierror.Error
		if !errors.As(err, &refusal) || refusal.Status != fasthttp.StatusBadRequest || refusal.Detail == "" {
			t.Fatalf("error = %#v", err)
		}
	})
}

// TestObjectsHaveABoundedNumberOfMembers: at any depth. The set of an object's names takes several times their size.
func TestObjectsHaveABoundedNumberOfMembers(t *testing.T) {
	t.Parallel()
	members := func(n int) string {
		var text strings.Builder
		for i := range n {
			_, _ = fmt.Fprintf(&text, `"%d":"A",`, i)
		}
		return strings.TrimSuffix(text.String(), ",")
	}
	for _, wrap := range []string{`{"name":"abc","answers":{%s}}`, `{"name":"abc","more":[{"x":{%[1]s}},{"x":{%[1]s}}]}`} {
		var got sampleBody
		check.NoErrorf(t, got.read(fmt.Appendf(nil, wrap, members(maxMembers))), "at the limit")
		err := got.read(fmt.Appendf(nil, wrap, members(maxMembers+1)))
		if refusal, ok := errors.AsType[*apierror.Error](err); !ok || refusal.Code != apierror.CodeInvalidJSON {
			t.Errorf("beyond the limit: %v", err)
		}
	}
	var got sampleBody
	if err := got.read([]byte(`{"name":"abc",` + members(maxMembers) + `}`)); err == nil {
		t.Error("a body beyond the limit was read")
	}
}

// TestErrorsQuoteLittle: a client's text of any size and of any characters makes an error of at most 8 KiB.
func TestErrorsQuoteLittle(t *testing.T) {
	t.Parallel()
	for _, long := range []string{strings.Repeat("\x7f", 1<<20), strings.Repeat("\U0010ffff", 1<<18), strings.Repeat("a/b~", 1<<18)} {
		for _, body := range []string{
			`{"name":"abc","` + long + `":1,"` + long + `":2}`,
			`{"name":"abc","answers":{"` + long + `":"A","` + long + `":"B"}}`,
			`{"name":"abc","answers":{"` + long + `":1}}`,
			`{"name":"` + long + `"}`,
		} {
			var got sampleBody
			err := got.read([]byte(body))
			refusal, ok := errors.AsType[*apierror.Error](err)
			if !ok {
				t.Fatalf("%.40s: %v, want an error", body, err)
			}
			if n := len(refusal.Body()); n > 8<<10 {
				t.Errorf("%.40s: an error of %d bytes", body, n)
			}
			if n := len(refusal.Detail); n > 2<<10 {
				t.Errorf("%.40s: a detail of %d bytes", body, n)
			}
		}
	}
}
