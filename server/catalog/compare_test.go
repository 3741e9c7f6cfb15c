package catalog_test

import (
	"reflect"
	"strings"
	"testing"

	"examprep.dev/server/catalog"
	"examprep.dev/server/catalog/catalogtest"
)

func TestChangesAreToldQuestionByQuestion(t *testing.T) {
	t.Parallel()
	old := catalogtest.SamplePaper("xx-sample-2023")
	next := catalogtest.Clone(catalog.Exam{Papers: []catalog.Paper{old}}).Papers[0]
	next.Title = "Sample 2023, corrected"
	next.Marking = nil
	next.Questions[0].Answer.Choices = []string{"C"}
	next.Questions[1].Options["D"] = "four"
	next.Questions[2].Answer.Tolerance = 0
	next.Questions[3].Prompt = strings.Repeat("é", 200) + "!"
	next.Questions[4] = catalog.Question{Section: 3, Number: 1, Prompt: "New", Answer: catalog.Answer{Kind: catalog.AnswerText, Text: "yes"}}
	const id = "xx-sample-2023"
	want := []catalog.Change{
		{catalog.Changed, id, "", "title", "Sample 2023", "Sample 2023, corrected"},
		{catalog.Removed, id, "", "marking", `{"correct":3,"incorrect":-1,"unanswered":0}`, ""},
		{catalog.Changed, id, "1:1", "answer", "B", "C"},
		{catalog.Added, id, "1:2", "options.D", "", "four"},
		{catalog.Changed, id, "2:1", "answer", "3.14 ± 0.01", "3.14"},
		{catalog.Changed, id, "2:2", "prompt", "Leaves eat light by…", strings.Repeat("é", 50) + "…"},
		{catalog.Added, id, "3:1", "", "", `answer "yes"`},
		{catalog.Removed, id, "2:3", "", "answer annulled", ""},
	}
	got := catalog.ComparePapers(&old, &next)
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%v\nwant\n%v", got, want)
	}
	if got, want := got[2].String(), "paper xx-sample-2023 question 1:1 answer: B → C"; got != want {
		t.Errorf("printed %q, want %q", got, want)
	}
	if changes := catalog.ComparePapers(&next, &next); changes != nil {
		t.Errorf("a paper differs from itself: %v", changes)
	}
}

func TestALongValueIsShownWhereItDiffers(t *testing.T) {
	t.Parallel()
	old, next := catalogtest.SamplePaper("xx-sample-2023"), catalogtest.SamplePaper("xx-sample-2023")
	old.Title = strings.Repeat("ñ", 300) + "old tail"
	next.Title = strings.Repeat("ñ", 300) + "new tail"
	changes := catalog.ComparePapers(&old, &next)
	if len(changes) != 1 || !strings.HasSuffix(changes[0].Old, "ñold tail") || !strings.HasSuffix(changes[0].New, "ñnew tail") {
		t.Errorf("got %v", changes)
	}
	if strings.ContainsRune(changes[0].Old, '\uFFFD') {
		t.Errorf("a character was cut: %q", changes[0].Old)
	}
}

func TestChangesOfTheExamAreToldByField(t *testing.T) {
	t.Parallel()
	old := catalogtest.SampleExam()
	next := catalogtest.Clone(old)
	next.Name = "Renamed"
	next.Country = ""
	next.DurationMinutes = 100
	next.Sections = append(next.Sections[:1:1], catalog.Section{Name: "Two"})
	next.Scoring = []byte(`{"note":"<as printed>","pass_mark":4}`)
	next.Resources.OfficialSites = nil
	want := []catalog.Change{
		{Kind: catalog.Changed, Field: "name", Old: "Sample exam", New: "Renamed"},
		{Kind: catalog.Removed, Field: "country", Old: "Spain"},
		{Kind: catalog.Changed, Field: "durationMinutes", Old: "90", New: "100"},
		{Kind: catalog.Added, Field: "sections[1]", New: `{"name":"Two"}`},
		{Kind: catalog.Changed, Field: "scoring", Old: `{"note":"<as printed>","pass_mark":3}`, New: `{"note":"<as printed>","pass_mark":4}`},
		{Kind: catalog.Removed, Field: "resources.officialSites[0]", Old: `{"title":"Board","url":"https://example.org/"}`},
	}
	if got := catalog.CompareExams(old, next); !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%v\nwant\n%v", got, want)
	}
}
