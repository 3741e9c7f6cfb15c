package httpapi_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"examprep.dev/server/catalog"
)

// realData lies beside the repository where it is there at all.
const realData = "../../../shared/data"

// TestRealPapersAreWhatTheContractPromises publishes every real paper there is, reads all that is served of them, and sits
// each once; call holds every answer against the contract.
func TestRealPapersAreWhatTheContractPromises(t *testing.T) {
	sets, err := filepath.Glob(filepath.Join(realData, "*", "exams.json"))
	if err != nil {
		t.Fatal(err)
	}
	if len(sets) == 0 {
		t.Skip("the real papers are not on this machine: ", realData)
	}
	var exams []catalog.Exam
	for _, set := range sets {
		exams = append(exams, readRealExams(t, filepath.Dir(set))...)
	}
	a := newAPI(t, options{exams: exams})
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
	if papers != 81 || questions != 13_532 {
		t.Errorf("%d papers with %d questions were served, want 81 with 13532", papers, questions)
	}
}

func (a *api) mustGet(path string) {
	a.t.Helper()
	if got := a.get(path); got.status != http.StatusOK {
		a.t.Errorf("%s: %d %s", path, got.status, got.body)
	}
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
			submission, err := json.Marshal(map[string]any{"attempt_id": id, "answers": answers})
			if err != nil {
				a.t.Fatal(err)
			}
			if got := a.post(path+"/submit", string(submission)); got.status != http.StatusOK {
				a.t.Errorf("%s: %d %s", paper, got.status, short(got.body))
			}
			return seen
		}
	}
}

// realPaper and realQuestion are lines of papers.jsonl and questions.jsonl.
type realPaper struct {
	ExamKey    string             `json:"exam_key"`
	ID         string             `json:"paper_id"`
	Title      string             `json:"title"`
	Subject    string             `json:"subject"`
	Year       int                `json:"year"`
	Minutes    int                `json:"duration_min"`
	Marking    catalog.Marking    `json:"marking"`
	Language   string             `json:"language"`
	Provenance catalog.Provenance `json:"provenance"`
}

type realQuestion struct {
	PaperID     string            `json:"paper_id"`
	Section     int               `json:"section"`
	SectionName string            `json:"section_name"`
	Number      int               `json:"number"`
	Prompt      string            `json:"prompt"`
	Options     map[string]string `json:"options"`
	Answer      struct {
		Kind      catalog.AnswerKind `json:"kind"`
		Value     json.RawMessage    `json:"value"`
		Tolerance float64            `json:"tolerance"`
	} `json:"answer"`
	Explanation string `json:"explanation"`
	HasVisual   bool   `json:"has_visual"`
	Topic       string `json:"topic"`
}

// readRealExams reads one set.
func readRealExams(t *testing.T, folder string) []catalog.Exam {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(folder, "exams.json"))
	if err != nil {
		t.Fatal(err)
	}
	var exams []catalog.Exam
	if err := json.Unmarshal(raw, &exams); err != nil {
		t.Fatal(err)
	}
	questions := map[string][]catalog.Question{}
	for _, line := range readLines[realQuestion](t, filepath.Join(folder, "questions.jsonl")) {
		questions[line.PaperID] = append(questions[line.PaperID], line.question(t))
	}
	for _, line := range readLines[realPaper](t, filepath.Join(folder, "papers.jsonl")) {
		i := slices.IndexFunc(exams, func(e catalog.Exam) bool { return e.Key == line.ExamKey })
		exams[i].Papers = append(exams[i].Papers, catalog.Paper{
			ID: line.ID, Title: line.Title, Subject: line.Subject, Year: line.Year, DurationMinutes: line.Minutes,
			Language: line.Language, Marking: &line.Marking, Provenance: line.Provenance, Questions: questions[line.ID],
		})
	}
	return exams
}

func (l realQuestion) question(t *testing.T) catalog.Question {
	t.Helper()
	answer := catalog.Answer{Kind: l.Answer.Kind, Tolerance: l.Answer.Tolerance}
	target := any(&answer.Choices)
	switch answer.Kind {
	case catalog.AnswerChoice:
		answer.Choices = make([]string, 1)
		target = &answer.Choices[0]
	case catalog.AnswerNumeric:
		target = &answer.Number
	case catalog.AnswerText:
		target = &answer.Text
	case catalog.AnswerChoices, catalog.AnswerAnnulled, catalog.AnswerUnmarkable: // several, or nothing
	}
	if len(l.Answer.Value) > 0 {
		if err := json.Unmarshal(l.Answer.Value, target); err != nil {
			t.Fatal(err)
		}
	}
	return catalog.Question{
		Section: l.Section, SectionName: l.SectionName, Number: l.Number, Prompt: l.Prompt, Options: l.Options,
		Answer: answer, Explanation: l.Explanation, HasVisual: l.HasVisual, Topic: l.Topic,
	}
}

// readLines reads a file of JSON Lines.
func readLines[T any](t *testing.T, path string) []T {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	var all []T
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var line T
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		all = append(all, line)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}
