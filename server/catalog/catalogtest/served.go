package catalogtest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"

	"github.com/gowebpki/jcs"

	"examprep.dev/server/catalog"
	"examprep.dev/server/catalog/read"
)

// Fataler is a test: *testing.T or *rapid.T.
type Fataler interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// CheckServed compares everything that requests see with the exam as it was declared.
func CheckServed(ctx context.Context, t Fataler, s *read.Snapshot, exam catalog.Exam, published catalog.Publication) {
	t.Helper()
	overview, err := s.Overview(exam.Key)
	if err != nil {
		t.Fatal(err)
	}
	got := decode[struct {
		Key      string            `json:"exam_key"`
		Name     string            `json:"name"`
		Category string            `json:"category"`
		Country  string            `json:"country"`
		Minutes  int               `json:"duration_min"`
		Sections []catalog.Section `json:"sections"`
		Scoring  json.RawMessage   `json:"scoring"`
	}](t, overview.JSON)
	if got.Key != exam.Key || got.Name != exam.Name || got.Minutes != exam.DurationMinutes ||
		canonical(t, got.Sections) != canonical(t, exam.Sections) || freeText(t, got.Scoring) != freeText(t, exam.Scoring) {
		t.Fatalf("overview %s", overview.JSON)
	}
	list, _ := s.Papers(exam.Key)
	papers := decode[paperCatalog](t, list.JSON)
	if papers.TotalPapers != len(exam.Papers) {
		t.Fatalf("catalogue %s", list.JSON)
	}
	for i := range exam.Papers {
		paper, err := s.Paper(ctx, exam.Key, exam.Papers[i].ID)
		if err != nil {
			t.Fatal(err)
		}
		if paper.Digest != published.PaperDigests[paper.PaperID] {
			t.Fatalf("paper %s is served in revision %s, published was %s", paper.PaperID, paper.Digest, published.PaperDigests[paper.PaperID])
		}
		checkPaper(t, paper, exam, &exam.Papers[i])
		key, err := AnswerKeys(t, s).Get(ctx, exam.Key, paper.Digest)
		if err != nil {
			t.Fatal(err)
		}
		checkKey(t, key, &exam.Papers[i])
	}
}

// AnswerKeys returns a cache of the answer keys of a snapshot without metrics, as they are stored.
func AnswerKeys(t Fataler, s *read.Snapshot) *read.Keys[*catalog.AnswerKey] {
	t.Helper()
	const keyBytes = 10_000 // about
	return read.NewKeys(s, func(key *catalog.AnswerKey) (*catalog.AnswerKey, int) { return key, keyBytes })
}

// paperCatalog is a MockPaperCatalog.
type paperCatalog struct {
	ExamKey     string `json:"exam_key"`
	TotalPapers int    `json:"total_papers"`
	Years       []struct {
		Year   int `json:"year"`
		Papers []struct {
			PaperID       string `json:"paper_id"`
			Title         string `json:"title"`
			Subject       string `json:"subject"`
			Year          int    `json:"year"`
			QuestionCount int    `json:"question_count"`
		} `json:"papers"`
	} `json:"years"`
}

// question is a MockQuestion.
type question struct {
	AnswerID       string            `json:"answer_id"`
	Section        int               `json:"section"`
	QuestionNumber int               `json:"question_number"`
	Prompt         string            `json:"prompt"`
	QuestionText   string            `json:"question_text"`
	Options        map[string]string `json:"options"`
	Page           int               `json:"page"`
	HasVisual      bool              `json:"has_visual"`
}

func checkPaper(t Fataler, got *read.PaperRevision, exam catalog.Exam, want *catalog.Paper) {
	t.Helper()
	if got.PaperID != want.ID || got.ExamKey != exam.Key || got.DurationMinutes != cmp.Or(want.DurationMinutes, exam.DurationMinutes) ||
		len(got.Questions) != len(want.Questions) {
		t.Fatalf("paper %+v", got)
	}
	for i, raw := range got.Questions {
		q, is := &want.Questions[i], decode[question](t, raw)
		if is.AnswerID != catalog.AnswerID(q.Section, q.Number) || is.QuestionNumber != q.Number || is.Prompt != q.Prompt || is.QuestionText != q.Prompt ||
			!maps.Equal(is.Options, q.Options) || is.Page != q.Page || is.HasVisual != q.HasVisual {
			t.Fatalf("question %s is not %+v", raw, q)
		}
	}
}

func checkKey(t Fataler, key *catalog.AnswerKey, want *catalog.Paper) {
	t.Helper()
	if len(key.Keys) != len(want.Questions) {
		t.Fatalf("%d keys of %d questions", len(key.Keys), len(want.Questions))
	}
	for i, k := range key.Keys {
		q := &want.Questions[i]
		choices := slices.Sorted(slices.Values(q.Answer.Choices))
		if k.Section != q.Section || k.Number != q.Number || k.Explanation != q.Explanation || k.Answer.Kind != q.Answer.Kind ||
			!slices.Equal(k.Answer.Choices, choices) || k.Answer.Number != q.Answer.Number || k.Answer.Tolerance != q.Answer.Tolerance ||
			k.Answer.Text != q.Answer.Text || !slices.Equal(k.Letters, slices.Sorted(maps.Keys(q.Options))) {
			t.Fatalf("key %+v is not that of %+v", k, q)
		}
	}
}

// decode reads a document strictly: a field that the type does not have is a failure.
func decode[T any](t Fataler, raw []byte) T {
	t.Helper()
	var v T
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&v); err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	return v
}

// canonical returns the RFC 8785 form of v.
func canonical(t Fataler, v any) string {
	t.Helper()
	raw, err := catalog.Encode(v)
	if err != nil {
		t.Fatal(err)
	}
	form, err := jcs.Transform(raw)
	if err != nil {
		t.Fatal(err)
	}
	return string(form)
}

func freeText(t Fataler, raw json.RawMessage) string {
	t.Helper()
	if len(raw) == 0 {
		return ""
	}
	return canonical(t, raw)
}
