//go:build e2e

package e2e

import (
	"bufio"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
)

// paper is a paper as the data sets have it, with its questions in the file's order.
type paper struct {
	Set     string  `json:"-"`
	Exam    string  `json:"exam_key"`
	ID      string  `json:"paper_id"`
	Marking marking `json:"marking"`
	// QuestionCount is the set's own count; it is checked.
	QuestionCount int        `json:"question_count"`
	Questions     []question `json:"-"`
}

// marking keeps numbers as they were written.
type marking struct {
	Correct    json.Number `json:"correct"`
	Incorrect  json.Number `json:"incorrect"`
	Unanswered json.Number `json:"unanswered"`
}

type question struct {
	Paper     string            `json:"paper_id"`
	Section   int               `json:"section"`
	Number    int               `json:"number"`
	Prompt    string            `json:"prompt"`
	Options   map[string]string `json:"options"`
	HasVisual bool              `json:"has_visual"`
	Answer    struct {
		Kind      string          `json:"kind"`
		Value     json.RawMessage `json:"value"`
		Tolerance *json.Number    `json:"tolerance"`
	} `json:"answer"`
}

func (q question) answerID() string { return strconv.Itoa(q.Section) + ":" + strconv.Itoa(q.Number) }

func (q question) letters() []string { return slices.Sorted(maps.Keys(q.Options)) }

// readPapers reads all papers of the sets, in the files' order.
func readPapers(t *testing.T, dir string, sets []string) []*paper {
	t.Helper()
	var papers []*paper
	for _, set := range sets {
		byID := map[string]*paper{}
		eachLine(t, filepath.Join(dir, set, "papers.jsonl"), func(line []byte) {
			p := &paper{Set: set}
			decode(t, string(line), p)
			byID[p.ID] = p
			papers = append(papers, p)
		})
		eachLine(t, filepath.Join(dir, set, "questions.jsonl"), func(line []byte) {
			var q question
			decode(t, string(line), &q)
			byID[q.Paper].Questions = append(byID[q.Paper].Questions, q)
		})
	}
	for _, p := range papers {
		if len(p.Questions) == 0 || len(p.Questions) != p.QuestionCount {
			t.Fatalf("%s: read %d questions of %d", p.ID, len(p.Questions), p.QuestionCount)
		}
	}
	return papers
}

func eachLine(t *testing.T, path string, use func([]byte)) {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		use(lines.Bytes())
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
}
