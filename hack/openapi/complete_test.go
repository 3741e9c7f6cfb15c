package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"examprep.dev/server/testkit/check"
)

const small = `
paths:
  /exams/{exam_key}:
    OPERATION
components:
  parameters:
    CountryParameter: {name: country, in: query}
    ExamKeyParameter: {name: exam_key, in: path, example: geography}
    IdParameter: {name: id, in: path}
  responses:
    BadQuery: {description: D}
    BadBody: {description: D}
    Unauthorized: {description: D, headers: {WWW-Authenticate: {}}}
    NotSignedIn: {description: D}
    OtherOrigin: {description: D}
    NotFound: {description: D}
    ExamNotFound: {description: D, content: {}}
    RequestTimeout: {description: D}
    PayloadTooLarge: {description: D}
    UnsupportedMediaType: {description: D}
    RateLimited: {description: D}
    HeaderFieldsTooLarge: {description: D}
    InternalError: {description: D}
    ServiceUnavailable: {description: D}
    OtherRefusal: {description: D, content: {}}
`

func TestOperationGetsTheResponsesOfItsKind(t *testing.T) {
	t.Parallel()
	for operation, want := range map[string]string{
		`get: {responses: {'200': {description: D}}}`:                                                             "200 400 401 404 408 413 429 431 500 503 default",
		`post: {requestBody: {content: {application/json: {example: {}}}}, responses: {'200': {description: D}}}`: "200 400 401 404 408 413 415 429 431 500 503 default",
		`get: {security: [{session: []}], responses: {'200': {description: D}}}`:                                  "200 400 401 404 408 413 429 431 500 503 default",
		`post: {security: [{session: []}], responses: {'200': {description: D}}}`:                                 "200 400 401 403 404 408 413 429 431 500 503 default",
		`get: {security: [], responses: {'200': {description: D}}}`:                                               "200 400 408 413 429 431 500 503 default",
	} {
		converted, err := convert([]byte(strings.Replace(small, "OPERATION", operation, 1)), complete)
		check.NoError(t, err)
		text := compact(t, converted)
		_, rest, _ := strings.Cut(text, `"responses":{`)
		last := 0
		for status := range strings.FieldsSeq(want) {
			at := strings.Index(rest, `"`+status+`":{`)
			if at < last {
				t.Errorf("%s: %s is not in its place: %s", operation, status, rest)
			}
			last = at
		}
		if !strings.HasPrefix(text, `{"openapi":"3.1.0","paths":{"/exams/{exam_key}":{"parameters":[`+
			`{"$ref":"#/components/parameters/RequestIdParameter"},{"$ref":"#/components/parameters/ExamKeyParameter"}],`) {
			t.Errorf("%s: other parameters: %s", operation, text)
		}
	}
}

// compact returns JSON without blanks between its tokens.
func compact(t *testing.T, document []byte) string {
	t.Helper()
	var out bytes.Buffer
	check.NoError(t, json.Compact(&out, document))
	return out.String()
}

func TestOperationGetsSamplesOfItsExample(t *testing.T) {
	t.Parallel()
	const operation = "post: {operationId: openPaper, requestBody: {content: {application/json: {example: {paper_id: p}}}}, responses: {'201': {description: D, content: {}}}}"
	converted, err := convert([]byte(strings.Replace(small, "OPERATION", operation, 1)), complete)
	check.NoError(t, err)
	var got struct {
		Paths map[string]struct {
			Post struct {
				Samples []struct {
					Lang   string `json:"lang"`
					Source string `json:"source"`
				} `json:"x-codeSamples"`
			} `json:"post"`
		} `json:"paths"`
	}
	check.NoError(t, json.Unmarshal(converted, &got))
	samples := got.Paths["/exams/{exam_key}"].Post.Samples
	if len(samples) != 3 {
		t.Fatalf("got %d samples, want one of each language", len(samples))
	}
	for i, parts := range [][]string{
		{"curl ", "--request POST", `"$API_URL/exams/geography"`, `Bearer $API_KEY`, `--data '{"paper_id": "p"}'`},
		{"${process.env.API_URL}/exams/geography`", `method: "POST"`, `JSON.stringify({"paper_id": "p"})`, "response.status !== 201"},
		{"func openPaper(", "http.MethodPost", "`{\"paper_id\": \"p\"}`", "http.StatusCreated"},
	} {
		for _, part := range parts {
			if !strings.Contains(samples[i].Source, part) {
				t.Errorf("the sample in %s lacks %s:\n%s", samples[i].Lang, part, samples[i].Source)
			}
		}
	}
}

func TestDescriptionsListValuesAndCodes(t *testing.T) {
	t.Parallel()
	converted, err := convert([]byte("a: {x-extensible-enum: [b, c], description: State.}\nd: {description: E., x-error-codes: [f]}"), func(root *yaml.Node) error {
		describe(root)
		return nil
	})
	check.NoError(t, err)
	for _, want := range []string{"State. Known values: `b` and `c`. New values can appear.", "E. `error` is `f`."} {
		if !strings.Contains(string(converted), want) {
			t.Errorf("%s lacks %q", converted, want)
		}
	}
}

func TestWhatAnOperationDescribesIsKept(t *testing.T) {
	t.Parallel()
	const operation = `get:
      responses:
        '200': {description: D, headers: {Cache-Control: {own: true}}, content: {}}
        '404': {description: its own}
`
	converted, err := convert([]byte(strings.Replace(small, "OPERATION", operation, 1)), complete)
	check.NoError(t, err)
	var got struct {
		Paths map[string]struct {
			Get struct {
				Responses map[string]struct {
					Description string                    `json:"description"`
					Headers     map[string]map[string]any `json:"headers"`
				} `json:"responses"`
			} `json:"get"`
		} `json:"paths"`
		Components struct {
			Responses map[string]struct {
				Headers map[string]map[string]any `json:"headers"`
			} `json:"responses"`
		} `json:"components"`
	}
	check.NoError(t, json.Unmarshal(converted, &got))
	responses := got.Paths["/exams/{exam_key}"].Get.Responses
	if own, _ := responses["200"].Headers["Cache-Control"]["own"].(bool); !own || len(responses["200"].Headers) != 6 {
		t.Errorf("200 has the headers %v", responses["200"].Headers)
	}
	if responses["404"].Description != "its own" || responses["404"].Headers["Cache-Control"] != nil {
		t.Errorf("404 is %v", responses["404"])
	}
	for name, headers := range map[string]int{"Unauthorized": 6, "RateLimited": 5, "OtherRefusal": 5, "ExamNotFound": 0} {
		check.Equal(t, len(got.Components.Responses[name].Headers), headers, "headers of %s", name)
	}
}

func TestOperationThatCannotBeCompletedIsRefused(t *testing.T) {
	t.Parallel()
	for operation, want := range map[string]string{
		`get: {operationId: x}`: "has no responses",
		`post: {requestBody: {content: {}}, responses: {'200': {description: D}}}`: "the request body has no example",
		`get: {responses: {'200': {$ref: '#/components/responses/None'}}}`:         "the response 200 of get /exams/{exam_key} is not in components",
	} {
		if _, err := convert([]byte(strings.Replace(small, "OPERATION", operation, 1)), complete); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", operation, err, want)
		}
	}
}

// The page shows at each operation only the errors that are not in sharedErrors.
func TestPageShowsCommonResponsesOnce(t *testing.T) {
	t.Parallel()
	shown := map[string]bool{"ExamNotFound": true, "NotFound": true, "Conflict": true} // at each operation
	for _, shared := range sharedErrors() {
		shown[shared[1]] = true
	}
	for _, source := range []string{"{}", "{requestBody: {}}", "{security: [{session: []}]}", "{security: [{session: []}], tags: [Members]}"} {
		var operation yaml.Node
		check.NoError(t, yaml.Unmarshal([]byte(source), &operation))
		for status, name := range commonResponses("/exams/{exam_key}", "post", operation.Content[0]) {
			if !shown[name] {
				t.Errorf("the page shows %s %s at each operation", status, name)
			}
		}
	}
}
