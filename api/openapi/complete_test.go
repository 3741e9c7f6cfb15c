package openapi

import (
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"examprep.dev/server/testkit/check"
)

const small = `
paths:
  /exams/{exam_key}:
    OPERATION
components:
  parameters:
    Country: {name: country, in: query}
    ExamKey: {name: exam_key, in: path}
    Id: {name: id, in: path}
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
		`get: {responses: {'200': {description: D}}}`:                             "200 400 401 404 408 413 429 431 500 503 default",
		`post: {requestBody: {}, responses: {'200': {description: D}}}`:           "200 400 401 404 408 413 415 429 431 500 503 default",
		`get: {security: [{session: []}], responses: {'200': {description: D}}}`:  "200 400 401 404 408 413 429 431 500 503 default",
		`post: {security: [{session: []}], responses: {'200': {description: D}}}`: "200 400 401 403 404 408 413 429 431 500 503 default",
		`get: {security: [], responses: {'200': {description: D}}}`:               "200 400 408 413 429 431 500 503 default",
	} {
		converted, err := convert([]byte(strings.Replace(small, "OPERATION", operation, 1)), complete)
		check.NoError(t, err)
		_, rest, _ := strings.Cut(string(converted), `"responses":{`)
		last := 0
		for status := range strings.FieldsSeq(want) {
			at := strings.Index(rest, `"`+status+`":{`)
			if at < last {
				t.Errorf("%s: %s is not in its place: %s", operation, status, rest)
			}
			last = at
		}
		if !strings.HasPrefix(string(converted), `{"paths":{"/exams/{exam_key}":{"parameters":[{"$ref":"#/components/parameters/RequestId"},{"$ref":"#/components/parameters/ExamKey"}],`) {
			t.Errorf("%s: other parameters: %s", operation, converted)
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
					Description string
					Headers     map[string]map[string]any
				}
			}
		}
		Components struct {
			Responses map[string]struct{ Headers map[string]map[string]any }
		}
	}
	check.NoError(t, yaml.Unmarshal(converted, &got))
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
		`get: {responses: {'200': {$ref: '#/components/responses/None'}}}`: "the response 200 of get /exams/{exam_key} is not in components",
	} {
		if _, err := convert([]byte(strings.Replace(small, "OPERATION", operation, 1)), complete); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", operation, err, want)
		}
	}
}
