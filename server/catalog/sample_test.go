package catalog

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// sampleExam is a valid exam with one paper of every kind of answer; tests change what they are about.
func sampleExam() Exam {
	return Exam{
		Key: "xx-sample", Name: "Sample exam", Category: "samples", Country: "Spain", CountryCode: "ES", DurationMinutes: 90,
		Sections: []Section{{Name: "All", DurationMinutes: 90, Questions: 6, QuestionTypes: []string{"single_choice"}}},
		Scoring:  json.RawMessage(`{"pass_mark": 3, "note": "<as printed>"}`),
		Resources: Resources{
			OfficialSites: []Link{{Title: "Board", URL: "https://example.org/"}},
		},
		StudyPath: StudyPath{Weeks: 2, HoursTotal: 7.5, Steps: []json.RawMessage{[]byte(`{"week":1,"title":"Begin"}`)}},
		Papers:    []Paper{samplePaper("xx-sample-2023")},
	}
}

func samplePaper(id string) Paper {
	options := map[string]string{"A": "one", "B": "two", "C": "three"}
	return Paper{
		ID: id, Title: "Sample 2023", Subject: "all", Year: 2023, Language: "en-GB",
		Marking:    &Marking{Correct: 3, Incorrect: -1},
		Provenance: Provenance{Publisher: "Board", SourceURL: "https://example.org/2023.pdf", License: "CC0-1.0"},
		Questions: []Question{
			{Section: 1, Number: 1, Prompt: "1 + 1 < 3?", Options: options, Answer: Answer{Kind: AnswerChoice, Choices: []string{"B"}}, Explanation: "Count.", Page: 2, Topic: "sums"},
			{Section: 1, Number: 2, Prompt: "Odd?", Options: options, Answer: Answer{Kind: AnswerChoices, Choices: []string{"A", "C"}}, HasVisual: true},
			{Section: 2, SectionName: "Second", Number: 1, Prompt: "π?", Answer: Answer{Kind: AnswerNumeric, Number: 3.14, Tolerance: 0.01}},
			{Section: 2, SectionName: "Second", Number: 2, Prompt: "Leaves eat light by…", Answer: Answer{Kind: AnswerText, Text: "photosynthesis"}},
			{Section: 2, SectionName: "Second", Number: 3, Prompt: "Void", Options: options, Answer: Answer{Kind: AnswerAnnulled}},
			{Section: 2, SectionName: "Second", Number: 4, Prompt: "Essay", Answer: Answer{Kind: AnswerUnmarkable}},
		},
	}
}

// clone copies an exam deep enough for a test to change any question of it.
func clone(exam Exam) Exam {
	exam.Papers = slices.Clone(exam.Papers)
	for i := range exam.Papers {
		exam.Papers[i].Questions = slices.Clone(exam.Papers[i].Questions)
		for j := range exam.Papers[i].Questions {
			exam.Papers[i].Questions[j].Options = maps.Clone(exam.Papers[i].Questions[j].Options)
		}
	}
	return exam
}

// seal gives every paper a verification of its own digest.
func seal(t *testing.T, exam Exam) Exam {
	t.Helper()
	exam = clone(exam)
	for i := range exam.Papers {
		digest, err := exam.Papers[i].SealDigest()
		if err != nil {
			t.Fatal(err)
		}
		exam.Papers[i].Verification = &Verification{By: "reviewer", At: "2026-01-31", Digest: digest.String()}
	}
	return exam
}

// text draws a string that is not blank and holds any characters but U+0000.
func text() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		return "x" + strings.ReplaceAll(rapid.StringN(0, 20, 80).Draw(t, "text"), "\x00", "")
	})
}

func anyMarking() *rapid.Generator[*Marking] {
	return rapid.Custom(func(t *rapid.T) *Marking {
		if rapid.Bool().Draw(t, "unmarked") {
			return nil
		}
		hundredths := func(lowest, highest int, label string) float64 {
			return float64(rapid.IntRange(lowest, highest).Draw(t, label)) / 100
		}
		return &Marking{Correct: hundredths(100, 500, "correct"), Incorrect: hundredths(-300, 0, "incorrect")}
	})
}

func anyQuestion(section, number int) *rapid.Generator[Question] {
	return rapid.Custom(func(t *rapid.T) Question {
		q := Question{
			Section: section, Number: number, Prompt: text().Draw(t, "prompt"), HasVisual: rapid.Bool().Draw(t, "visual"),
			Page: rapid.IntRange(0, 9).Draw(t, "page"),
		}
		if rapid.Bool().Draw(t, "with prose") {
			q.SectionName, q.Explanation, q.Topic = text().Draw(t, "section"), text().Draw(t, "explanation"), text().Draw(t, "topic")
		}
		q.Answer.Kind = rapid.SampledFrom([]AnswerKind{
			AnswerChoice, AnswerChoices, AnswerNumeric, AnswerText, AnswerAnnulled, AnswerUnmarkable,
		}).Draw(t, "kind")
		letters := []string{"A", "B", "C", "D", "E"}[:rapid.IntRange(2, 5).Draw(t, "options")]
		switch q.Answer.Kind {
		case AnswerNumeric:
			q.Answer.Number = rapid.Float64().Draw(t, "number")
			q.Answer.Tolerance = rapid.Float64Min(0).Draw(t, "tolerance")
			return q
		case AnswerText:
			q.Answer.Text = text().Draw(t, "answer")
			return q
		case AnswerChoice:
			q.Answer.Choices = []string{rapid.SampledFrom(letters).Draw(t, "letter")}
		case AnswerChoices:
			q.Answer.Choices = rapid.SliceOfNDistinct(rapid.SampledFrom(letters), 1, len(letters), rapid.ID).Draw(t, "letters")
		case AnswerAnnulled, AnswerUnmarkable:
		}
		q.Options = make(map[string]string, len(letters))
		for _, letter := range letters {
			q.Options[letter] = text().Draw(t, "option")
		}
		return q
	})
}

func anyPaper(id string) *rapid.Generator[Paper] {
	return rapid.Custom(func(t *rapid.T) Paper {
		paper := Paper{
			ID: id, Title: text().Draw(t, "title"), Year: rapid.IntRange(minYear, maxYear).Draw(t, "year"),
			DurationMinutes: rapid.IntRange(0, 300).Draw(t, "minutes"), Marking: anyMarking().Draw(t, "marking"),
			Language:   rapid.SampledFrom([]string{"", "es", "pt-BR", "zh-Hant-TW"}).Draw(t, "language"),
			Provenance: Provenance{Publisher: text().Draw(t, "publisher"), SourceURL: "https://example.org/p", License: "MIT"},
		}
		for i := range rapid.IntRange(1, 6).Draw(t, "questions") {
			paper.Questions = append(paper.Questions, anyQuestion(1+i/4, 1+i%4).Draw(t, "question"))
		}
		return paper
	})
}

func anyExam(key string) *rapid.Generator[Exam] {
	return rapid.Custom(func(t *rapid.T) Exam {
		exam := Exam{
			Key: key, Name: text().Draw(t, "name"), DurationMinutes: rapid.IntRange(0, 300).Draw(t, "minutes"),
			CountryCode: rapid.SampledFrom([]string{"", "ES", "BR", "IN"}).Draw(t, "country"),
			StudyPath:   StudyPath{HoursTotal: float64(rapid.IntRange(0, 99).Draw(t, "hours")) / 4},
		}
		if rapid.Bool().Draw(t, "scored") {
			exam.Scoring = json.RawMessage(fmt.Sprintf(`{ "pass_mark" : %d, "Rubric": [1.50, "<b>"] }`, rapid.IntRange(0, 9).Draw(t, "pass")))
		}
		for i := range rapid.IntRange(0, 3).Draw(t, "papers") {
			exam.Papers = append(exam.Papers, anyPaper(fmt.Sprintf("%s-%02d", key, 9-i)).Draw(t, "paper"))
		}
		return exam
	})
}
