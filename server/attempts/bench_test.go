package attempts

import (
	"encoding/json"
	"testing"

	"examprep.dev/server/catalog"
)

// BenchmarkScoreASubmission is what a submission of a long paper costs besides Postgres: reading, grading, rendering.
func BenchmarkScoreASubmission(b *testing.B) {
	key := catalog.AnswerKey{Marking: catalog.Marking{Correct: 3, Incorrect: -1}}
	var given []Answer
	for n := range 235 {
		key.Keys = append(key.Keys, catalog.QuestionKey{
			Section: 1, Number: n + 1, Letters: abcd, Answer: catalog.Answer{Kind: catalog.AnswerChoice, Choices: []string{abcd[n%4]}},
		})
		given = append(given, Answer{Key: catalog.AnswerID(1, n+1), Value: abcd[n%3]})
	}
	for b.Loop() {
		paper := newSheet(&key)
		answers, err := paper.read(given)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := paper.store(answers); err != nil {
			b.Fatal(err)
		}
		if _, err := json.Marshal(paper.grade(answers)); err != nil {
			b.Fatal(err)
		}
	}
}
