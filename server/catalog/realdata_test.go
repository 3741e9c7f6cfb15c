package catalog

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"examprep.dev/server/postgres"
)

// realData lies beside the repository where it is there at all.
const realData = "../../../shared/data"

// TestRealPapersAreServedAsTheyWere publishes every real paper there is and compares what is served with the source,
// question for question.
func TestRealPapersAreServedAsTheyWere(t *testing.T) {
	if _, err := os.Stat(realData); err != nil {
		t.Skip("the real papers are not on this machine: ", err)
	}
	folders, err := filepath.Glob(filepath.Join(realData, "*", "exams.json"))
	if err != nil {
		t.Fatal(err)
	}
	b := newBench(t, postgres.Production)
	papers, questions := 0, 0
	for _, path := range folders {
		for _, exam := range readExams(t, filepath.Dir(path)) {
			if err := Validate(exam); err != nil {
				t.Fatalf("%s: %v", exam.Key, err)
			}
			exam = seal(t, exam)
			published := b.publish(t, exam)
			checkServed(t.Context(), t, b.snapshot(t, SnapshotConfig{}), exam, published)
			papers += len(exam.Papers)
			for i := range exam.Papers {
				questions += len(exam.Papers[i].Questions)
			}
			if again := b.publish(t, exam); again.Changed {
				t.Errorf("%s changed without a change", exam.Key)
			}
		}
	}
	if papers != 81 || questions != 13_532 {
		t.Errorf("%d papers with %d questions were published, want 81 with 13532", papers, questions)
	}
}

func readExams(t *testing.T, folder string) []Exam {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(folder, "exams.json"))
	if err != nil {
		t.Fatal(err)
	}
	var exams []Exam
	if err := json.Unmarshal(raw, &exams); err != nil {
		t.Fatal(err)
	}
	questions := make(map[string][]Question)
	eachLine(t, filepath.Join(folder, "questions.jsonl"), func(line questionLine) {
		questions[line.PaperID] = append(questions[line.PaperID], line.question(t))
	})
	eachLine(t, filepath.Join(folder, "papers.jsonl"), func(line paperLine) {
		i := slices.IndexFunc(exams, func(e Exam) bool { return e.Key == line.ExamKey })
		exams[i].Papers = append(exams[i].Papers, Paper{
			ID: line.ID, Title: line.Title, Subject: line.Subject, Year: line.Year, DurationMinutes: line.Minutes,
			Language: line.Language, Marking: &line.Marking, Provenance: line.Provenance, Questions: questions[line.ID],
		})
	})
	return exams
}

type paperLine struct {
	ExamKey    string     `json:"exam_key"`
	ID         string     `json:"paper_id"`
	Title      string     `json:"title"`
	Subject    string     `json:"subject"`
	Year       int        `json:"year"`
	Minutes    int        `json:"duration_min"`
	Marking    Marking    `json:"marking"`
	Language   string     `json:"language"`
	Provenance Provenance `json:"provenance"`
}

type questionLine struct {
	PaperID     string            `json:"paper_id"`
	Section     int               `json:"section"`
	SectionName string            `json:"section_name"`
	Number      int               `json:"number"`
	Prompt      string            `json:"prompt"`
	Options     map[string]string `json:"options"`
	Answer      struct {
		Kind      AnswerKind      `json:"kind"`
		Value     json.RawMessage `json:"value"`
		Tolerance float64         `json:"tolerance"`
	} `json:"answer"`
	Explanation string `json:"explanation"`
	Page        int    `json:"page"`
	HasVisual   bool   `json:"has_visual"`
	Topic       string `json:"topic"`
}

func (l questionLine) question(t *testing.T) Question {
	t.Helper()
	answer := Answer{Kind: l.Answer.Kind, Tolerance: l.Answer.Tolerance}
	var err error
	switch answer.Kind {
	case AnswerChoice:
		answer.Choices = make([]string, 1)
		err = json.Unmarshal(l.Answer.Value, &answer.Choices[0])
	case AnswerChoices:
		err = json.Unmarshal(l.Answer.Value, &answer.Choices)
	case AnswerNumeric:
		err = json.Unmarshal(l.Answer.Value, &answer.Number)
	case AnswerText:
		err = json.Unmarshal(l.Answer.Value, &answer.Text)
	case AnswerAnnulled, AnswerUnmarkable:
	}
	if err != nil {
		t.Fatal(err)
	}
	return Question{
		Section: l.Section, SectionName: l.SectionName, Number: l.Number, Prompt: l.Prompt, Options: l.Options, Answer: answer,
		Explanation: l.Explanation, Page: l.Page, HasVisual: l.HasVisual, Topic: l.Topic,
	}
}

func eachLine[T any](t *testing.T, path string, visit func(T)) {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var line T
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			t.Fatal(err)
		}
		visit(line)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
}
