// Package catalogtest has exams for tests, and compares served exams with declared ones. It reads real exam papers from
// ../shared/data, as seen from the repository; a test that needs them is skipped where they are absent.
package catalogtest

import (
	"bufio"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"examprep.dev/server/catalog"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
	"examprep.dev/server/testkit/race"
)

const (
	// Papers is how many there are in all sets.
	Papers = 81
	// Questions is how many these have.
	Questions = 13_532
)

// Folder is where the sets lie, each in a folder of its own.
func Folder(t testing.TB) string {
	t.Helper()
	root, err := filepath.Abs(".")
	check.NoError(t, err)
	for !isProject(root) && root != filepath.Dir(root) {
		root = filepath.Dir(root)
	}
	folder := filepath.Join(root, "..", "shared", "data")
	if _, err := os.Stat(folder); errors.Is(err, fs.ErrNotExist) {
		t.Skipf("SKIPPED, NOT TESTED: the real exam papers are absent (%v); they belong into ../shared/data, next to the checkout's folder", err)
	} else if err != nil {
		t.Fatal(err)
	}
	return folder
}

func isProject(folder string) bool {
	_, err := os.Stat(filepath.Join(folder, "go.mod"))
	return err == nil
}

// Sets are the folders of all sets.
func Sets(t testing.TB) []string {
	t.Helper()
	folder := Folder(t)
	sets, err := filepath.Glob(filepath.Join(folder, "*", "exams.json"))
	if err != nil || len(sets) == 0 {
		t.Fatalf("there are no sets in %s: %v", folder, err)
	}
	for i, set := range sets {
		sets[i] = filepath.Dir(set)
	}
	return sets
}

// SampledSets returns the folders of all sets, and under the race detector that of the smallest set. The detector makes a test that
// reads sets in one goroutine ten times as slow, and finds nothing. `make test` reads all sets without the detector, in tests with
// RealPapers in their names.
func SampledSets(t testing.TB) []string {
	t.Helper()
	sets := Sets(t)
	if race.Enabled {
		sets = slices.DeleteFunc(sets, func(set string) bool { return filepath.Base(set) != "jeebench" })
		check.Equal(t, len(sets), 1, "sets to sample")
	}
	return sets
}

// Exams reads the exams of sets, with their papers.
func Exams(t testing.TB, sets []string) []catalog.Exam {
	t.Helper()
	var exams []catalog.Exam
	for _, set := range sets {
		exams = append(exams, readSet(t, set)...)
	}
	return exams
}

func readSet(t testing.TB, set string) []catalog.Exam {
	t.Helper()
	raw := testkit.ReadFile(t, filepath.Join(set, "exams.json"))
	var exams []catalog.Exam
	testkit.Decode(t, raw, &exams)
	questions := map[string][]catalog.Question{}
	for _, line := range Lines[questionLine](t, filepath.Join(set, "questions.jsonl")) {
		questions[line.PaperID] = append(questions[line.PaperID], line.question(t))
	}
	for _, line := range Lines[paperLine](t, filepath.Join(set, "papers.jsonl")) {
		i := slices.IndexFunc(exams, func(e catalog.Exam) bool { return e.Key == line.ExamKey })
		if i < 0 {
			t.Fatalf("%s: paper %s is of exam %s, which is not there", set, line.ID, line.ExamKey)
		}
		exams[i].Papers = append(exams[i].Papers, catalog.Paper{
			ID: line.ID, Title: line.Title, Subject: line.Subject, Year: line.Year, DurationMinutes: line.Minutes,
			Language: line.Language, Marking: &line.Marking, Provenance: line.Provenance, Questions: questions[line.ID],
		})
	}
	return exams
}

// paperLine is a line of papers.jsonl.
type paperLine struct {
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

// questionLine is a line of questions.jsonl.
type questionLine struct {
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
	Page        int    `json:"page"`
	HasVisual   bool   `json:"has_visual"`
	Topic       string `json:"topic"`
}

func (l questionLine) question(t testing.TB) catalog.Question {
	t.Helper()
	answer := catalog.Answer{Kind: l.Answer.Kind, Tolerance: l.Answer.Tolerance}
	var err error
	switch answer.Kind {
	case catalog.AnswerChoice:
		answer.Choices = make([]string, 1)
		err = json.Unmarshal(l.Answer.Value, &answer.Choices[0])
	case catalog.AnswerChoices:
		err = json.Unmarshal(l.Answer.Value, &answer.Choices)
	case catalog.AnswerNumeric:
		err = json.Unmarshal(l.Answer.Value, &answer.Number)
	case catalog.AnswerText:
		err = json.Unmarshal(l.Answer.Value, &answer.Text)
	case catalog.AnswerAnnulled, catalog.AnswerUnmarkable: // no value
	}
	check.NoError(t, err)
	return catalog.Question{
		Section: l.Section, SectionName: l.SectionName, Number: l.Number, Prompt: l.Prompt, Options: l.Options, Answer: answer,
		Explanation: l.Explanation, Page: l.Page, HasVisual: l.HasVisual, Topic: l.Topic,
	}
}

// Lines reads a file of JSON Lines.
func Lines[T any](t testing.TB, path string) []T {
	t.Helper()
	file, err := os.Open(path)
	check.NoError(t, err)
	defer func() { _ = file.Close() }()
	var all []T
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var line T
		testkit.Decode(t, lines.Bytes(), &line)
		all = append(all, line)
	}
	check.NoError(t, lines.Err())
	return all
}
