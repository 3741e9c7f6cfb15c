package catalog_test

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/gowebpki/jcs"
	"pgregory.net/rapid"

	"examprep.dev/server/catalog"
	"examprep.dev/server/catalog/catalogtest"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

// wholeForm is the canonical form of a paper with every field, and of every kind of character that RFC 8785 has a rule
// for. sha256sum of the file is its seal.
//
//go:embed testdata/paper.canonical.json
var wholeForm string

// The golden vectors: a change of any of them breaks every seal that reviewers ever gave.
func TestSealDigestNeverChanges(t *testing.T) {
	t.Parallel()
	whole := catalogtest.SamplePaper("xx-sample-2023")
	whole.DurationMinutes = 45
	whole.Provenance.SourceDigest = "sha256:" + strings.Repeat("0f", 32)
	whole.Questions[0].Prompt = "quote \" backslash \\ tab \t line \n bell \a é e\u0301 \u2028 \U0001F600 </script>"
	for _, test := range []struct {
		name, form, digest string
		paper              catalog.Paper
	}{
		{
			name: "the least there can be",
			paper: catalog.Paper{ID: "xx-2001", Year: 2001, Questions: []catalog.Question{
				{Section: 1, Number: 1, Prompt: "?", Answer: catalog.Answer{Kind: catalog.AnswerNumeric}},
			}},
			form:   `{"canonical":"examprep.dev/paper/v1","paper_id":"xx-2001","provenance":{},"questions":[{"answer":{"kind":"numeric","number":0,"tolerance":0},"number":1,"prompt":"?","section":1}],"year":2001}`,
			digest: "sha256:f83e003956d34b3c5b466e3478c4b780b7b0585fb225e5efe3770b979041d234",
		},
		{
			name: "every field", paper: whole, digest: "sha256:534549069f80622bfd0b6d3c65b3e64682154d63a8ff3611aeec9b14ba7b1a6a",
			form: wholeForm,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			form, err := test.paper.Canonical()
			check.NoError(t, err)
			if string(form) != test.form {
				t.Errorf("canonical form\n got %s\nwant %s", form, test.form)
			}
			digest, err := test.paper.SealDigest()
			check.NoError(t, err)
			if digest.String() != test.digest {
				t.Errorf("digest\n got %s\nwant %s", digest, test.digest)
			}
		})
	}
}

// A change here republishes every exam there is at the next reconcile.
func TestRevisionDigestsNeverChange(t *testing.T) {
	t.Parallel()
	exam := catalogtest.SampleExam()
	published, err := catalog.Identify(catalogtest.Valid(t, exam))
	check.NoError(t, err)
	if got, want := published.PaperDigests[exam.Papers[0].ID].String(), "sha256:90204d8019a73e82af9b6d7c48140556a94c590f4561fce6ad2addf23a1e0fe5"; got != want {
		t.Errorf("paper revision digest = %s, want %s", got, want)
	}
	if got, want := published.Digest.String(), "sha256:9d17960b0a2d593aebfbcf206e2e07684ef6c103ac85dba0708a26f68f1d47c8"; got != want {
		t.Errorf("exam digest = %s, want %s", got, want)
	}
}

func TestCanonicalFormIsRFC8785(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		paper := catalogtest.AnyPaper("xx-paper").Draw(t, "paper")
		form, err := paper.Canonical()
		check.NoError(t, err)
		reference, err := jcs.Transform(form)
		check.NoError(t, err)
		if !bytes.Equal(reference, form) {
			t.Fatalf("the form is not canonical\n got %s\nwant %s", form, reference)
		}
	})
}

func TestEveryFieldIsSealed(t *testing.T) {
	t.Parallel()
	changes := map[string]func(*catalog.Paper){
		"id":              func(p *catalog.Paper) { p.ID += "x" },
		"title":           func(p *catalog.Paper) { p.Title += "x" },
		"subject":         func(p *catalog.Paper) { p.Subject = "" },
		"year":            func(p *catalog.Paper) { p.Year++ },
		"duration":        func(p *catalog.Paper) { p.DurationMinutes++ },
		"language":        func(p *catalog.Paper) { p.Language = "en" },
		"marking":         func(p *catalog.Paper) { p.Marking = nil },
		"marks":           func(p *catalog.Paper) { p.Marking = &catalog.Marking{Correct: 3, Incorrect: -1, Unanswered: 0.1} },
		"publisher":       func(p *catalog.Paper) { p.Provenance.Publisher += "x" },
		"source":          func(p *catalog.Paper) { p.Provenance.SourceURL += "x" },
		"source digest":   func(p *catalog.Paper) { p.Provenance.SourceDigest += "x" },
		"license":         func(p *catalog.Paper) { p.Provenance.License += "x" },
		"section":         func(p *catalog.Paper) { p.Questions[0].Section = 9 },
		"section name":    func(p *catalog.Paper) { p.Questions[0].SectionName = "x" },
		"number":          func(p *catalog.Paper) { p.Questions[0].Number = 9 },
		"prompt":          func(p *catalog.Paper) { p.Questions[0].Prompt += " " },
		"option":          func(p *catalog.Paper) { p.Questions[0].Options = map[string]string{"A": "one", "B": "two", "C": "3"} },
		"letter":          func(p *catalog.Paper) { p.Questions[0].Answer.Choices = []string{"C"} },
		"one or several":  func(p *catalog.Paper) { p.Questions[0].Answer.Kind = catalog.AnswerChoices },
		"explanation":     func(p *catalog.Paper) { p.Questions[0].Explanation = "" },
		"page":            func(p *catalog.Paper) { p.Questions[0].Page++ },
		"visual":          func(p *catalog.Paper) { p.Questions[0].HasVisual = true },
		"topic":           func(p *catalog.Paper) { p.Questions[0].Topic = "" },
		"answer number":   func(p *catalog.Paper) { p.Questions[2].Answer.Number = math.Nextafter(3.14, 4) },
		"tolerance":       func(p *catalog.Paper) { p.Questions[2].Answer.Tolerance = 0 },
		"answer text":     func(p *catalog.Paper) { p.Questions[3].Answer.Text += "x" },
		"annulled":        func(p *catalog.Paper) { p.Questions[4].Answer.Kind = catalog.AnswerUnmarkable },
		"question's loss": func(p *catalog.Paper) { p.Questions = p.Questions[1:] },
		"question's place": func(p *catalog.Paper) {
			p.Questions[0], p.Questions[1] = p.Questions[1], p.Questions[0]
		},
	}
	digest := func(p catalog.Paper) catalog.Digest {
		d, err := p.SealDigest()
		check.NoError(t, err)
		return d
	}
	original := digest(catalogtest.SamplePaper("xx-sample-2023"))
	for name, change := range changes {
		paper := catalogtest.SamplePaper("xx-sample-2023")
		change(&paper)
		if digest(paper) == original {
			t.Errorf("%s is not sealed", name)
		}
	}
	same := catalogtest.SamplePaper("xx-sample-2023")
	same.Verification = &catalog.Verification{By: "somebody"}
	same.Questions[1].Answer.Choices = []string{"C", "A"}
	if digest(same) != original {
		t.Error("the verification or the order of letters is sealed")
	}
}

func TestWhatHasNoCanonicalFormIsRefused(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*catalog.Paper){
		"not UTF-8":    func(p *catalog.Paper) { p.Questions[0].Prompt = "a\xff" },
		"not finite":   func(p *catalog.Paper) { p.Questions[2].Answer.Number = math.Inf(1) },
		"not a number": func(p *catalog.Paper) { p.Marking.Correct = math.NaN() },
	} {
		paper := catalogtest.SamplePaper("xx-sample-2023")
		change(&paper)
		if _, err := paper.SealDigest(); err == nil {
			t.Errorf("%s: a digest was given", name)
		}
	}
}

func TestContentThatMeansTheSameHasOneDigest(t *testing.T) {
	t.Parallel()
	exam := catalogtest.SampleExam()
	exam.Papers = append(exam.Papers, catalogtest.SamplePaper("xx-sample-2024"))
	same := catalogtest.Clone(exam)
	same.Papers[0], same.Papers[1] = same.Papers[1], same.Papers[0]
	same.Scoring = json.RawMessage("{\"note\":\"\\u003cas printed>\",\n\t\"pass_mark\":3.0}")
	digests := make([]catalog.Digest, 2)
	for i, e := range []catalog.Exam{exam, same} {
		published, err := catalog.Identify(catalogtest.Valid(t, e))
		check.NoError(t, err)
		digests[i] = published.Digest
	}
	if digests[0] != digests[1] {
		t.Error("the order of papers in a file, or white space, is content")
	}
}

func TestDigestReadsWhatItPrints(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		d := catalog.Digest(rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "digest"))
		raw := testkit.Encode(t, d)
		var back catalog.Digest
		if err := json.Unmarshal(raw, &back); err != nil || back != d {
			t.Fatalf("got %v, %v, want %v", back, err, d)
		}
	})
	for _, wrong := range []string{"", "sha256:", strings.Repeat("0", 64), "sha256:" + strings.Repeat("A", 64), "sha256:" + strings.Repeat("g", 64), "sha256:" + strings.Repeat("0", 63)} {
		if _, err := catalog.ParseDigest(wrong); err == nil {
			t.Errorf("ParseDigest(%q) succeeded", wrong)
		}
	}
}
