package client

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"examprep.dev/api/openapi"
	"examprep.dev/server/testkit/check"
)

// schema is the part of a JSON Schema that has properties.
type schema struct {
	Ref        string            `json:"$ref"`
	Properties map[string]schema `json:"properties"`
	AllOf      []schema          `json:"allOf"`
	OneOf      []schema          `json:"oneOf"`
}

func TestTypesHaveAllFieldsOfTheContract(t *testing.T) {
	t.Parallel()
	var contract struct {
		Components struct {
			Schemas map[string]schema `json:"schemas"`
		} `json:"components"`
		Webhooks map[string]struct {
			Post struct {
				RequestBody struct {
					Content map[string]struct {
						Schema schema `json:"schema"`
					} `json:"content"`
				} `json:"requestBody"`
			} `json:"post"`
		} `json:"webhooks"`
	}
	check.NoError(t, json.Unmarshal(openapi.JSON(), &contract))
	schemas := contract.Components.Schemas
	var names func(schema) []string
	names = func(s schema) (found []string) {
		if s.Ref != "" {
			return names(schemas[strings.TrimPrefix(s.Ref, "#/components/schemas/")])
		}
		for name := range s.Properties {
			found = append(found, name)
		}
		for _, part := range append(s.AllOf, s.OneOf...) {
			found = append(found, names(part)...)
		}
		return found
	}
	event := func(kind string) schema {
		return contract.Webhooks[kind].Post.RequestBody.Content["application/json"].Schema
	}
	data := func(kind string) schema { return event(kind).Properties["data"] }
	for name, c := range map[string]struct {
		schema schema
		value  any
	}{
		"ExamSummary":        {schemas["ExamSummary"], ExamSummary{}},
		"ExamOverview":       {schemas["ExamOverview"], ExamOverview{}},
		"ExamSection":        {schemas["ExamSection"], ExamSection{}},
		"ExamResources":      {schemas["ExamResources"], ExamResources{}},
		"ResourceLink":       {schemas["ResourceLink"], ResourceLink{}},
		"ExamStudyPath":      {schemas["ExamStudyPath"], ExamStudyPath{}},
		"MockPaperCatalog":   {schemas["MockPaperCatalog"], MockPaperCatalog{}},
		"MockPaperYear":      {schemas["MockPaperYear"], MockPaperYear{}},
		"MockPaperSummary":   {schemas["MockPaperSummary"], MockPaperSummary{}},
		"MockQuestion":       {schemas["MockQuestion"], MockQuestion{}},
		"MockAttempt":        {schemas["MockAttempt"], MockAttempt{}},
		"MockQuestionPage":   {schemas["MockQuestionPage"], MockQuestionPage{}},
		"MockAttemptResult":  {schemas["MockAttemptResult"], MockAttemptResult{}},
		"Feedback":           {schemas["Feedback"], Feedback{}},
		"ScaledScore":        {schemas["ScaledScore"], ScaledScore{}},
		"SectionFeedback":    {schemas["SectionFeedback"], SectionResult{}},
		"QuestionFeedback":   {schemas["QuestionFeedback"], QuestionResult{}},
		"MockAttemptList":    {schemas["MockAttemptList"], History{}},
		"MockAttemptSummary": {schemas["MockAttemptSummary"], MockAttemptSummary{}},
		"event":              {event("mock_attempt.scored"), Event{}},
		"submitted":          {data("mock_attempt.submitted"), AttemptSubmitted{}},
		"scored":             {data("mock_attempt.scored"), AttemptScored{}},
		"content updated":    {data("exam.content_updated"), ContentUpdated{}},
		"test":               {data("webhook.test"), WebhookTested{}},
	} {
		fields := map[string]bool{}
		for _, field := range reflect.VisibleFields(reflect.TypeOf(c.value)) {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			fields[name] = true
		}
		described := names(c.schema)
		if len(described) == 0 {
			t.Errorf("%s: the contract has no such schema", name)
		}
		for _, property := range described {
			if !fields[property] {
				t.Errorf("%s: there is no field for %s", name, property)
			}
		}
	}
}
