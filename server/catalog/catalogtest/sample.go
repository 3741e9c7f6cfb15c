package catalogtest

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"unicode"

	"pgregory.net/rapid"

	"examprep.dev/server/catalog"
)

// SampleExam returns a valid exam, xx-sample, with one paper that has a question of each kind of answer.
func SampleExam() catalog.Exam {
	return catalog.Exam{
		Key: "xx-sample", Name: "Sample exam", Category: "samples", Country: "Spain", CountryCode: "ES", DurationMinutes: 90,
		Sections: []catalog.Section{{Name: "All", DurationMinutes: 90, Questions: 6, QuestionTypes: []string{"single_choice"}}},
		Scoring:  json.RawMessage(`{"pass_mark": 3, "note": "<as printed>"}`),
		Resources: catalog.Resources{
			OfficialSites: []catalog.Link{{Title: "Board", URL: "https://example.org/"}},
		},
		StudyPath: catalog.StudyPath{Weeks: 2, HoursTotal: 7.5, Steps: []json.RawMessage{[]byte(`{"week":1,"title":"Begin"}`)}},
		Papers:    []catalog.Paper{SamplePaper("xx-sample-2023")},
	}
}

// SamplePaper returns the paper of SampleExam under another ID.
func SamplePaper(id string) catalog.Paper {
	options := map[string]string{"A": "one", "B": "two", "C": "three"}
	return catalog.Paper{
		ID: id, Title: "Sample 2023", Subject: "all", Year: 2023, Language: "en-GB",
		Marking:    &catalog.Marking{Correct: 3, Incorrect: -1},
		Provenance: catalog.Provenance{Publisher: "Board", SourceURL: "https://example.org/2023.pdf", License: "CC0-1.0"},
		Questions: []catalog.Question{
			{Section: 1, Number: 1, Prompt: "1 + 1 < 3?", Options: options, Answer: catalog.Answer{Kind: catalog.AnswerChoice, Choices: []string{"B"}}, Explanation: "Count.", Page: 2, Topic: "sums"},
			{Section: 1, Number: 2, Prompt: "Odd?", Options: options, Answer: catalog.Answer{Kind: catalog.AnswerChoices, Choices: []string{"A", "C"}}, HasVisual: true},
			{Section: 2, SectionName: "Second", Number: 1, Prompt: "π?", Answer: catalog.Answer{Kind: catalog.AnswerNumeric, Number: 3.14, Tolerance: 0.01}},
			{Section: 2, SectionName: "Second", Number: 2, Prompt: "Leaves eat light by…", Answer: catalog.Answer{Kind: catalog.AnswerText, Text: "photosynthesis"}},
			{Section: 2, SectionName: "Second", Number: 3, Prompt: "Void", Options: options, Answer: catalog.Answer{Kind: catalog.AnswerAnnulled}},
			{Section: 2, SectionName: "Second", Number: 4, Prompt: "Essay", Answer: catalog.Answer{Kind: catalog.AnswerUnmarkable}},
		},
	}
}

// Clone copies an exam with its papers, questions and options.
func Clone(exam catalog.Exam) catalog.Exam {
	exam.Papers = slices.Clone(exam.Papers)
	for i := range exam.Papers {
		exam.Papers[i].Questions = slices.Clone(exam.Papers[i].Questions)
		for j := range exam.Papers[i].Questions {
			exam.Papers[i].Questions[j].Options = maps.Clone(exam.Papers[i].Questions[j].Options)
		}
	}
	return exam
}

// Seal returns a copy of an exam whose papers have a verification of their digest.
func Seal(t *testing.T, exam catalog.Exam) catalog.Exam {
	t.Helper()
	exam = Clone(exam)
	for i := range exam.Papers {
		digest, err := exam.Papers[i].SealDigest()
		if err != nil {
			t.Fatal(err)
		}
		exam.Papers[i].Verification = &catalog.Verification{By: "reviewer", At: "2026-01-31", Digest: digest.String()}
	}
	return exam
}

// text generates strings that are not blank, of any characters that a text can have.
func text() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		return "x" + strings.Map(func(r rune) rune {
			if unicode.IsControl(r) && r != '\n' && r != '\t' || r == 0xfffe || r == 0xffff {
				return -1
			}
			return r
		}, rapid.StringN(0, 20, 80).Draw(t, "text"))
	})
}

func anyMarking() *rapid.Generator[*catalog.Marking] {
	return rapid.Custom(func(t *rapid.T) *catalog.Marking {
		if rapid.Bool().Draw(t, "unmarked") {
			return nil
		}
		hundredths := func(lowest, highest int, label string) float64 {
			return float64(rapid.IntRange(lowest, highest).Draw(t, label)) / 100
		}
		return &catalog.Marking{Correct: hundredths(100, 500, "correct"), Incorrect: hundredths(-300, 0, "incorrect")}
	})
}

func anyQuestion(section, number int) *rapid.Generator[catalog.Question] {
	return rapid.Custom(func(t *rapid.T) catalog.Question {
		q := catalog.Question{
			Section: section, Number: number, Prompt: text().Draw(t, "prompt"), HasVisual: rapid.Bool().Draw(t, "visual"),
			Page: rapid.IntRange(0, 9).Draw(t, "page"),
		}
		if rapid.Bool().Draw(t, "with prose") {
			q.SectionName, q.Explanation, q.Topic = text().Draw(t, "section"), text().Draw(t, "explanation"), text().Draw(t, "topic")
		}
		q.Answer.Kind = rapid.SampledFrom([]catalog.AnswerKind{
			catalog.AnswerChoice, catalog.AnswerChoices, catalog.AnswerNumeric, catalog.AnswerText, catalog.AnswerAnnulled, catalog.AnswerUnmarkable,
		}).Draw(t, "kind")
		letters := []string{"A", "B", "C", "D", "E"}[:rapid.IntRange(2, 5).Draw(t, "options")]
		switch q.Answer.Kind {
		case catalog.AnswerNumeric:
			q.Answer.Number = rapid.Float64().Draw(t, "number")
			q.Answer.Tolerance = rapid.Float64Min(0).Draw(t, "tolerance")
			return q
		case catalog.AnswerText:
			q.Answer.Text = text().Draw(t, "answer")
			return q
		case catalog.AnswerChoice:
			q.Answer.Choices = []string{rapid.SampledFrom(letters).Draw(t, "letter")}
		case catalog.AnswerChoices:
			q.Answer.Choices = rapid.SliceOfNDistinct(rapid.SampledFrom(letters), 1, len(letters), rapid.ID).Draw(t, "letters")
		case catalog.AnswerAnnulled, catalog.AnswerUnmarkable:
		}
		q.Options = make(map[string]string, len(letters))
		for _, letter := range letters {
			q.Options[letter] = text().Draw(t, "option")
		}
		return q
	})
}

// AnyPaper generates valid papers.
func AnyPaper(id string) *rapid.Generator[catalog.Paper] {
	return rapid.Custom(func(t *rapid.T) catalog.Paper {
		paper := catalog.Paper{
			ID: id, Title: text().Draw(t, "title"), Year: rapid.IntRange(1800, 2200).Draw(t, "year"),
			DurationMinutes: rapid.IntRange(0, 300).Draw(t, "minutes"), Marking: anyMarking().Draw(t, "marking"),
			Language:   rapid.SampledFrom([]string{"", "es", "pt-BR", "zh-Hant-TW"}).Draw(t, "language"),
			Provenance: catalog.Provenance{Publisher: text().Draw(t, "publisher"), SourceURL: "https://example.org/p", License: "MIT"},
		}
		for i := range rapid.IntRange(1, 6).Draw(t, "questions") {
			paper.Questions = append(paper.Questions, anyQuestion(1+i/4, 1+i%4).Draw(t, "question"))
		}
		return paper
	})
}

// AnyExam generates valid exams.
func AnyExam(key string) *rapid.Generator[catalog.Exam] {
	return rapid.Custom(func(t *rapid.T) catalog.Exam {
		exam := catalog.Exam{
			Key: key, Name: text().Draw(t, "name"), DurationMinutes: rapid.IntRange(0, 300).Draw(t, "minutes"),
			CountryCode: rapid.SampledFrom([]string{"", "ES", "BR", "IN"}).Draw(t, "country"),
			StudyPath:   catalog.StudyPath{HoursTotal: float64(rapid.IntRange(0, 99).Draw(t, "hours")) / 4},
		}
		if rapid.Bool().Draw(t, "scored") {
			exam.Scoring = json.RawMessage(fmt.Sprintf(`{ "pass_mark" : %d, "Rubric": [1.50, "<b>"] }`, rapid.IntRange(0, 9).Draw(t, "pass")))
		}
		for i := range rapid.IntRange(0, 3).Draw(t, "papers") {
			exam.Papers = append(exam.Papers, AnyPaper(fmt.Sprintf("%s-%02d", key, 9-i)).Draw(t, "paper"))
		}
		return exam
	})
}
