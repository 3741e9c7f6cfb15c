package httpapi_test

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"reflect"
	"strings"
	"testing"

	"examprep.dev/api/openapi"
	"examprep.dev/controllers/manifest"
	"examprep.dev/server/catalog"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/apitest"
	"examprep.dev/server/testkit/check"
)

// TestTheExamplesComeTrue plays the examples of the specification's nine operations on the sample exam that they are
// about, in their order: what is answered is what the contract shows, but for ids and times.
func TestTheExamplesComeTrue(t *testing.T) {
	t.Parallel()
	a := newAPI(t, apitest.Options{Exams: sampleContent(t)})
	shown := readContract(t)
	attempt := ""
	for _, operation := range []struct{ method, path string }{
		{"get", "/exam-prep/list"},
		{"get", "/exam-prep/{exam_key}/overview"},
		{"get", "/exam-prep/{exam_key}/resources"},
		{"get", "/exam-prep/{exam_key}/study-path"},
		{"get", "/exam-prep/{exam_key}/mock-exams"},
		{"post", "/exam-prep/{exam_key}/mock-exams/open"},
		{"post", "/exam-prep/{exam_key}/mock-exams/questions"},
		{"post", "/exam-prep/{exam_key}/mock-exams/submit"},
		{"get", "/exam-prep/{exam_key}/mock-exams/history"},
	} {
		described := shown.Paths[operation.path][operation.method]
		path := "/v1" + strings.Replace(operation.path, "{exam_key}", "sample-geography", 1)
		var got response
		if operation.method == "get" {
			got = a.get(path)
		} else {
			body := described.RequestBody.Content.JSON.Example
			if _, submits := body["attempt_id"]; submits {
				body["attempt_id"] = attempt
			}
			got = a.post(path, asJSON(t, body))
		}
		if id, opened := got.document(t)["attempt_id"].(string); opened {
			attempt = id
		}
		answer := described.Responses["200"].Content.JSON
		want := answer.Example
		if want == nil {
			want = answer.Examples["scored"].Value
		}
		if g, w := asJSON(t, withoutIDsAndTimes(got.document(t))), asJSON(t, withoutIDsAndTimes(want)); got.status != http.StatusOK || g != w {
			t.Errorf("%s %s answers %d\n%s\nthe contract shows\n%s", operation.method, operation.path, got.status, g, w)
		}
	}
}

func sampleContent(t *testing.T) []catalog.Exam {
	t.Helper()
	bundle, err := manifest.Load(t.Context(), os.Stdin, "../../config/samples")
	check.NoError(t, err)
	var samples samplePublisher
	_, err = manifest.Publish(t.Context(), bundle, &samples, "test")
	check.NoError(t, err)
	return samples.exams
}

type samplePublisher struct{ exams []catalog.Exam }

func (p *samplePublisher) Publish(_ context.Context, _ catalog.Claim, exam catalog.Exam, _ catalog.Options) (catalog.Publication, error) {
	p.exams = append(p.exams, exam)
	return catalog.Publication{}, nil
}

type (
	// shownContract is the examples of the document.
	shownContract struct {
		Paths map[string]map[string]struct {
			RequestBody exampleBody            `json:"requestBody"`
			Responses   map[string]exampleBody `json:"responses"`
		} `json:"paths"`
	}
	exampleBody struct {
		Content struct {
			JSON struct {
				Example  map[string]any `json:"example"`
				Examples map[string]struct {
					Value map[string]any `json:"value"`
				} `json:"examples"`
			} `json:"application/json"`
		} `json:"content"`
	}
)

func readContract(t *testing.T) shownContract {
	t.Helper()
	text, err := openapi.JSON()
	check.NoError(t, err)
	var document struct {
		Paths map[string]map[string]json.RawMessage `json:"paths"`
	}
	testkit.Decode(t, text, &document)
	for _, item := range document.Paths {
		delete(item, "parameters") // the only member that is no operation
	}
	var parsed shownContract
	testkit.Decode(t, []byte(asJSON(t, document)), &parsed)
	return parsed
}

// withoutIDsAndTimes replaces, at any depth, what differs from one attempt to the next; that it is there still counts.
func withoutIDsAndTimes(value any) any {
	switch value := value.(type) {
	case map[string]any:
		for name, member := range value {
			switch name {
			case "attempt_id", "opened_at", "expires_at", "started_at", "submitted_at", "duration_sec":
				value[name] = reflect.TypeOf(member).String()
			default:
				value[name] = withoutIDsAndTimes(member)
			}
		}
	case []any:
		for i, element := range value {
			value[i] = withoutIDsAndTimes(element)
		}
	}
	return value
}

func asJSON(t *testing.T, value any) string {
	t.Helper()
	text := testkit.Encode(t, value)
	return string(text)
}
