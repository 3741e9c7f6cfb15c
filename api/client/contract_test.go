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
}

// contract is the part of the contract that has schemas.
type contract struct {
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

func readContract(t *testing.T) *contract {
	t.Helper()
	var c contract
	check.NoError(t, json.Unmarshal(openapi.JSON(), &c))
	return &c
}

// names returns the properties of a schema.
func (c *contract) names(s schema) (found []string) {
	if s.Ref != "" {
		return c.names(c.Components.Schemas[strings.TrimPrefix(s.Ref, "#/components/schemas/")])
	}
	for name := range s.Properties {
		found = append(found, name)
	}
	for _, part := range s.AllOf {
		found = append(found, c.names(part)...)
	}
	return found
}

// event returns the schema of a webhook's body.
func (c *contract) event(kind string) schema {
	return c.Webhooks[kind].Post.RequestBody.Content["application/json"].Schema
}

func TestTypesHaveAllFieldsOfTheContract(t *testing.T) {
	t.Parallel()
	c := readContract(t)
	schemas, data := c.Components.Schemas, func(kind string) schema { return c.event(kind).Properties["data"] }
	for name, one := range map[string]struct {
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
		"event":              {c.event("mock_attempt.scored"), Event{}},
		"submitted":          {data("mock_attempt.submitted"), AttemptSubmitted{}},
		"scored":             {data("mock_attempt.scored"), AttemptScored{}},
		"content updated":    {data("exam.content_updated"), ContentUpdated{}},
		"test":               {data("webhook.test"), WebhookTested{}},
	} {
		fields := map[string]bool{}
		for _, field := range reflect.VisibleFields(reflect.TypeOf(one.value)) {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			fields[name] = true
		}
		described := c.names(one.schema)
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
