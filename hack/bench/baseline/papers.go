package baseline

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Paper is a paper to copy.
type Paper struct {
	ID, Title, Subject, SourceURL string
	Year                          int
	Questions                     []Question
}

// Question is a question with options, of which Choice is right.
type Question struct {
	Section, Number, Page int
	Prompt                string
	Options               map[string]string
	Choice, Explanation   string
}

// PaperRows returns the papers of an exam as rows for CopyPapers and CopyKeys. The documents in them are as large as those that
// the product stored at commit 220ae0e.
func PaperRows(examKey string, papers []Paper) (rows, keys []byte, err error) {
	for _, paper := range papers {
		digest := sha256.Sum256([]byte(examKey + "/" + paper.ID))
		metadata, err := json.Marshal(map[string]any{
			"language": "en", "marking": map[string]int{"correct": 4, "incorrect": -1},
			"provenance": map[string]string{"publisher": "bench", "source_url": paper.SourceURL, "license": "CC0-1.0"},
		})
		if err != nil {
			return nil, nil, fmt.Errorf("encode a paper: %w", err)
		}
		questions, key, err := documents(paper)
		if err != nil {
			return nil, nil, err
		}
		hex := fmt.Sprintf(`\x%x`, digest)
		rows = appendRow(rows, examKey, hex, paper.ID, hex, paper.Title, paper.Subject, fmt.Sprint(paper.Year), "180",
			fmt.Sprint(len(paper.Questions)), string(metadata), string(questions), time.Now().UTC().Format(time.RFC3339Nano))
		keys = appendRow(keys, examKey, hex, string(key))
	}
	return rows, keys, nil
}

// documents returns the questions without their answers, and the answer key.
func documents(paper Paper) (questions, key []byte, err error) {
	type question struct {
		Section int               `json:"section"`
		Number  int               `json:"number"`
		Prompt  string            `json:"prompt"`
		Options map[string]string `json:"options"`
		Page    int               `json:"page"`
	}
	type answer struct {
		Kind    string   `json:"kind"`
		Choices []string `json:"choices"`
	}
	type answerKey struct {
		Section     int      `json:"section"`
		Number      int      `json:"number"`
		Letters     []string `json:"letters"`
		Answer      answer   `json:"answer"`
		Explanation string   `json:"explanation"`
	}
	var all []question
	var answers []answerKey
	for _, q := range paper.Questions {
		all = append(all, question{q.Section, q.Number, q.Prompt, q.Options, q.Page})
		letters := slices.Sorted(maps.Keys(q.Options))
		answers = append(answers, answerKey{q.Section, q.Number, letters, answer{"choice", []string{q.Choice}}, q.Explanation})
	}
	if questions, err = json.Marshal(all); err != nil {
		return nil, nil, fmt.Errorf("encode questions: %w", err)
	}
	if key, err = json.Marshal(map[string]any{"marking": map[string]int{"correct": 4, "incorrect": -1}, "keys": answers}); err != nil {
		return nil, nil, fmt.Errorf("encode an answer key: %w", err)
	}
	return questions, key, nil
}

// appendRow appends a row in COPY's text format.
func appendRow(to []byte, fields ...string) []byte {
	escape := strings.NewReplacer(`\`, `\\`, "\t", `\t`, "\n", `\n`, "\r", `\r`)
	for i, field := range fields {
		if i > 0 {
			to = append(to, '\t')
		}
		to = append(to, escape.Replace(field)...)
	}
	return append(to, '\n')
}
