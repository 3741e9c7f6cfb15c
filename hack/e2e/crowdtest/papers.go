package crowdtest

import (
	"bufio"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"examprep.dev/server/testkit/check"
)

// Paper is a paper as the data sets have it, with its questions in the file's order.
type Paper struct {
	Set     string  `json:"-"`
	Exam    string  `json:"exam_key"`
	ID      string  `json:"paper_id"`
	Marking Marking `json:"marking"`
	// QuestionCount is the set's own count; it is checked.
	QuestionCount int        `json:"question_count"`
	Questions     []Question `json:"-"`
}

// Marking keeps numbers as they were written.
type Marking struct {
	Correct    json.Number `json:"correct"`
	Incorrect  json.Number `json:"incorrect"`
	Unanswered json.Number `json:"unanswered"`
}

// Question is a question as the data sets have it.
type Question struct {
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

// AnswerID is the question's key in a submission.
func (q Question) AnswerID() string { return strconv.Itoa(q.Section) + ":" + strconv.Itoa(q.Number) }

func (q Question) letters() []string { return slices.Sorted(maps.Keys(q.Options)) }

// ReadPapers reads all papers of the sets, in the files' order.
func ReadPapers(t *testing.T, dir string, sets []string) []*Paper {
	t.Helper()
	var papers []*Paper
	for _, set := range sets {
		byID := map[string]*Paper{}
		eachLine(t, filepath.Join(dir, set, "papers.jsonl"), func(line []byte) {
			p := &Paper{Set: set}
			decode(t, line, p)
			byID[p.ID] = p
			papers = append(papers, p)
		})
		eachLine(t, filepath.Join(dir, set, "questions.jsonl"), func(line []byte) {
			var q Question
			decode(t, line, &q)
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
	check.NoError(t, err)
	defer func() { _ = file.Close() }()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		use(lines.Bytes())
	}
	check.NoError(t, lines.Err())
}
