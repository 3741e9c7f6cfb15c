package openapitest

import (
	"cmp"
	"strings"
)

// A template is a path with parameters, such as /v1/exams/{exam_key}.
type template struct {
	text       string
	segments   []string
	parameters int
	at         Location
}

func newTemplate(text string, at Location) template {
	t := template{text: text, segments: strings.Split(text, "/"), at: at}
	for _, segment := range t.segments {
		if isParameter(segment) {
			t.parameters++
		}
	}
	return t
}

func isParameter(segment string) bool {
	return strings.HasPrefix(segment, "{") && strings.HasSuffix(segment, "}")
}

// compareTemplates puts concrete paths before templated ones, as OpenAPI has them match.
func compareTemplates(a, b template) int {
	return cmp.Or(cmp.Compare(a.parameters, b.parameters), strings.Compare(a.text, b.text))
}

// matches compares a path as it was sent, undecoded. A parameter has at least one character.
func (t template) matches(path string) bool {
	segments := strings.Split(path, "/")
	if len(segments) != len(t.segments) {
		return false
	}
	for i, segment := range t.segments {
		switch {
		case isParameter(segment):
			if segments[i] == "" {
				return false
			}
		case segment != segments[i]:
			return false
		}
	}
	return true
}
