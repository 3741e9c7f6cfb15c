package httpapi_test

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"testing"

	"examprep.dev/server/catalog/catalogtest"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/apitest"
)

// TestRealPapersAreWhatTheContractPromises publishes every real paper there is, reads all that is served of them, and sits
// each once; call holds every answer against the contract.
func TestRealPapersAreWhatTheContractPromises(t *testing.T) {
	t.Parallel()
	exams := catalogtest.Exams(t, catalogtest.Sets(t))
	a := newAPI(t, apitest.Options{Exams: exams})
	a.mustGet("/v1/exam-prep/list")
	papers, questions := 0, 0
	for _, exam := range exams {
		path := "/v1/exam-prep/" + exam.Key
		for _, document := range []string{"/overview", "/resources", "/study-path", "/mock-exams"} {
			a.mustGet(path + document)
		}
		for _, paper := range exam.Papers {
			papers++
			questions += a.sit(path+"/mock-exams", paper.ID)
		}
		a.mustGet(path + "/mock-exams/history?limit=50")
	}
	if papers != catalogtest.Papers || questions != catalogtest.Questions {
		t.Errorf("%d papers with %d questions were served, want %d with %d", papers, questions, catalogtest.Papers, catalogtest.Questions)
	}
}

func (a *api) mustGet(path string) {
	a.t.Helper()
	a.get(path).expect(a.t, http.StatusOK, "%s", path)
}

// sit opens a paper, reads it to its end, answers every other question that has options by the first of them, and
// submits. It returns how many questions there were.
func (a *api) sit(path, paper string) int {
	a.t.Helper()
	id, _ := a.post(path+"/open", `{"paper_id":"`+paper+`"}`).document(a.t)["attempt_id"].(string)
	answers := map[string]string{}
	for seen := 0; ; {
		page := a.post(path+"/questions", fmt.Sprintf(`{"paper_id":%q,"question_offset":%d,"question_limit":20}`, paper, seen)).document(a.t)
		list, _ := page["questions"].([]any)
		for i, element := range list {
			question, _ := element.(map[string]any)
			options, _ := question["options"].(map[string]any)
			if key, _ := question["answer_id"].(string); len(options) > 0 && i%2 == 0 {
				answers[key] = slices.Min(slices.Collect(maps.Keys(options)))
			}
		}
		if seen += len(list); len(list) == 0 || page["total"] == float64(seen) {
			submission := testkit.Encode(a.t, map[string]any{"attempt_id": id, "answers": answers})
			a.post(path+"/submit", string(submission)).expect(a.t, http.StatusOK, "%s", paper)
			return seen
		}
	}
}
