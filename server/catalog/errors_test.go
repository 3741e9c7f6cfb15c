package catalog_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"examprep.dev/server/catalog"
	"examprep.dev/server/catalog/catalogtest"
)

// TestARefusalShowsTheQuestionAndTheChange has the texts of a condition, for each difference between a paper and the published one.
func TestARefusalShowsTheQuestionAndTheChange(t *testing.T) {
	t.Parallel()
	const where = "; paper xx-sample-2023 "
	for name, test := range map[string]struct {
		change func(*catalog.Paper)
		want   []string
	}{
		"an answer":       {func(p *catalog.Paper) { p.Questions[0].Answer.Choices = []string{"C"} }, []string{where + "question 1:1 answer: B → C"}},
		"several answers": {func(p *catalog.Paper) { p.Questions[1].Answer.Choices = []string{"C", "B"} }, []string{where + "question 1:2 answer: A+C → B+C"}},
		"a number":        {func(p *catalog.Paper) { p.Questions[2].Answer.Number = 3.15 }, []string{where + "question 2:1 answer: 3.14 ± 0.01 → 3.15 ± 0.01"}},
		"a text":          {func(p *catalog.Paper) { p.Questions[3].Answer.Text = "annulled" }, []string{where + `question 2:2 answer: "photosynthesis" → "annulled"`}},
		"an annulment":    {func(p *catalog.Paper) { p.Questions[0].Answer = catalog.Answer{Kind: catalog.AnswerAnnulled} }, []string{where + "question 1:1 answer: B → annulled"}},
		"an annulment that is undone": {func(p *catalog.Paper) {
			p.Questions[4].Answer = catalog.Answer{Kind: catalog.AnswerChoice, Choices: []string{"A"}}
		}, []string{where + "question 2:3 answer: annulled → A"}},
		"a prompt":       {func(p *catalog.Paper) { p.Questions[0].Prompt = "1 + 1\n< 4?" }, []string{where + "question 1:1 prompt: 1 + 1 < 3? → 1 + 1↵< 4?"}},
		"an option":      {func(p *catalog.Paper) { p.Questions[0].Options["B"] = "zwei\x1b[2J" }, []string{where + "question 1:1 options.B: two → zwei [2J"}},
		"an option more": {func(p *catalog.Paper) { p.Questions[0].Options["D"] = "four" }, []string{where + "question 1:1 options.D added: four"}},
		"an option less": {func(p *catalog.Paper) { delete(p.Questions[0].Options, "C") }, []string{where + "question 1:1 options.C removed: three"}},
		"options that changed places": {
			func(p *catalog.Paper) { o := p.Questions[0].Options; o["A"], o["B"] = o["B"], o["A"] },
			[]string{where + "question 1:1 options.A: one → two", where + "question 1:1 options.B: two → one"},
		},
		"a question more": {
			func(p *catalog.Paper) {
				p.Questions = append(p.Questions, catalog.Question{Section: 3, Number: 1, Prompt: "New", Answer: catalog.Answer{Kind: catalog.AnswerNumeric, Number: 7}})
			},
			[]string{where + "question 3:1 added: answer 7"},
		},
		"a question less": {func(p *catalog.Paper) { p.Questions = p.Questions[1:] }, []string{where + "question 1:1 removed: answer B"}},
		"another order": {
			func(p *catalog.Paper) { p.Questions[0], p.Questions[1] = p.Questions[1], p.Questions[0] },
			[]string{where + "order of questions: 1:1 1:2 2:1 2:2 2:3 2:4 → 1:2 1:1 2:1 2:2 2:3 2:4"},
		},
		"marks": {func(p *catalog.Paper) { p.Marking.Incorrect = 0 }, []string{where + `marking: {"correct":3,"incorrect":-1,"unanswered":0} → {"correct":3,"incorrect":0,"unanswered":0}`}},
		"an answer behind much else": {
			func(p *catalog.Paper) {
				p.Title, p.Subject, p.Year, p.Language = "New", "new", 2024, "es"
				p.Provenance = catalog.Provenance{Publisher: "B", SourceURL: "https://b.example/", License: "MIT"}
				p.Questions[5].Topic = "t"
				p.Questions[2].Answer.Tolerance = 0
			},
			[]string{where + "question 2:1 answer: 3.14 ± 0.01 → 3.14" + where + "question 2:4 topic added: t" + where + "title: ", "; and 4 more changes"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			old := catalogtest.SamplePaper("xx-sample-2023")
			next := catalogtest.Clone(catalog.Exam{Papers: []catalog.Paper{catalogtest.SamplePaper("xx-sample-2023")}}).Papers[0]
			marking := *next.Marking
			next.Marking = &marking
			next.Questions[1].Options = maps.Clone(next.Questions[1].Options)
			next.Verification = &catalog.Verification{By: "reviewer", At: "2026-01-31", Digest: "sha256:" + strings.Repeat("0", 64)}
			old.Verification = next.Verification
			test.change(&next)
			refusal := &catalog.SealError{PaperID: next.ID, Have: next.Verification.Digest, Changes: catalog.ComparePapers(&old, &next)}
			message := refusal.Error()
			for _, want := range test.want {
				if !strings.Contains(message, want) {
					t.Errorf("message %q\nlacks   %q", message, want)
				}
			}
			if len(refusal.Changes) <= catalog.ShownChanges && len(refusal.Changes) != len(test.want) {
				t.Errorf("%d changes are told, want %d: %q", len(refusal.Changes), len(test.want), message)
			}
		})
	}
}

func TestARefusalIsShortHoweverMuchChanged(t *testing.T) {
	t.Parallel()
	old := catalogtest.SamplePaper("xx-sample-2023")
	old.Questions = nil
	for number := range 2000 {
		old.Questions = append(old.Questions, catalog.Question{
			Section: 1, Number: number + 1, Prompt: strings.Repeat("é\n", 5000), Answer: catalog.Answer{Kind: catalog.AnswerText, Text: strings.Repeat("á", 200)},
		})
	}
	next := catalogtest.Clone(catalog.Exam{Papers: []catalog.Paper{old}}).Papers[0]
	slices.Reverse(next.Questions)
	for i := range next.Questions {
		next.Questions[i].Prompt += "!"
		next.Questions[i].Answer.Text += "!"
	}
	refusal := &catalog.SealError{PaperID: next.ID, Changes: catalog.ComparePapers(&old, &next)}
	for i := range 499 {
		refusal.Others = append(refusal.Others, fmt.Sprintf("%s-%d", strings.Repeat("x", 150), i))
	}
	message := refusal.Error()
	if !utf8.ValidString(message) || strings.ContainsRune(message, '\n') || len(message) > 4096 {
		t.Errorf("%d bytes: %q", len(message), message)
	}
	if !strings.Contains(message, "; and 3996 more changes (further papers without a valid seal: ") || !strings.HasSuffix(message, " and 494 more)") {
		t.Errorf("the rest is not counted: %q", message)
	}
}
