package attempts

import (
	"testing"
	"time"

	"examprep.dev/server/attempts/marking"
	"examprep.dev/server/attempts/marking/markingtest"
	"examprep.dev/server/catalog"
)

// longPaper is a paper of 100 questions with an answer to each.
func longPaper() (catalog.AnswerKey, []marking.Answer) {
	key := catalog.AnswerKey{Marking: catalog.Marking{Correct: 3, Incorrect: -1}}
	var given []marking.Answer
	for n := range 100 {
		key.Keys = append(key.Keys, catalog.QuestionKey{
			Section: 1, Number: n + 1, Letters: markingtest.Letters(), Answer: catalog.Answer{Kind: catalog.AnswerChoice, Choices: []string{markingtest.Letters()[n%4]}},
			Explanation: "The letter follows from the definition; see page 12.",
		})
		given = append(given, marking.Answer{Key: catalog.AnswerID(1, n+1), Value: markingtest.Letters()[n%3]})
	}
	return key, given
}

// BenchmarkPrepareKey measures what loading an answer key costs beyond reading it.
func BenchmarkPrepareKey(b *testing.B) {
	key, _ := longPaper()
	b.ReportAllocs()
	for b.Loop() {
		marking.Prepare(&key)
	}
}

// BenchmarkScoreSubmission measures a submission without PostgreSQL: reading, storing, digest, grading and rendering.
func BenchmarkScoreSubmission(b *testing.B) {
	key, given := longPaper()
	paper, _ := marking.Prepare(&key)
	at := time.Date(2026, 3, 1, 9, 0, 0, 123_456_000, time.UTC)
	b.ReportAllocs()
	for b.Loop() {
		sub, err := readSubmission(paper, SubmitRequest{Answers: given})
		if err != nil {
			b.Fatal(err)
		}
		marking.Feedback{
			Status: string(StateSubmitted), Outcome: paper.Grade(sub.answers), StartedAt: at, SubmittedAt: at.Add(time.Hour), DurationSec: 3600,
		}.AppendJSON([]byte(`{"success":true,"feedback":`))
	}
}
