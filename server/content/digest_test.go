package content

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"examprep.dev/server/content/syntax"
	"examprep.dev/server/testkit/check"
)

func writeExam(t *testing.T, name, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), 0o640); err != nil { // not the permissions of a new file
		t.Fatal(err)
	}
	return file
}

func digestFile(t *testing.T, file string, options DigestOptions) (PaperSeal, string, error) {
	t.Helper()
	report, err := Digest(t.Context(), load(t, file), options)
	text, readErr := os.ReadFile(file)
	check.NoError(t, readErr)
	if err != nil {
		return PaperSeal{}, string(text), err
	}
	return report.Papers[0], string(text), nil
}

func TestDigestWriteChangesNothingButTheSeal(t *testing.T) {
	t.Parallel()
	sealed := "      verification:\n        by: Ann   # the reviewer\n        at: 2026-01-15\n        digest: sha256:" + strings.Repeat("0", 64) + "  # gone\n"
	withSeal := strings.Replace(goodExam, "      questions:\n", sealed+"      # the questions\n      questions:\n", 1)
	written := DigestOptions{Write: true, By: "Bob \"B\"", At: "2026-02-01"}
	seal, _, err := digestFile(t, writeExam(t, "exam.yaml", goodExam), DigestOptions{})
	check.NoError(t, err)
	digest := seal.Digest
	resealed := strings.Replace(goodExam, "      questions:\n", "      verification:\n        by: \"Ann\"\n        at: \"2026-01-15\"\n        digest: \""+
		digest+"\"\n      # the questions\n      questions:\n", 1)
	moved := goodExam + "      verification:\n        by: a\n        at: '2026-01-15'"
	ann := DigestOptions{Write: true, By: "Ann", At: "2026-01-15"}
	for name, test := range map[string]struct {
		text, want string
		options    DigestOptions
	}{
		"another digest": {text: withSeal, options: ann, want: resealed},
		"all of it": {
			text: withSeal, options: written,
			want: strings.NewReplacer(`by: "Ann"`, `by: "Bob \"B\""`, `at: "2026-01-15"`, `at: "2026-02-01"`).Replace(resealed),
		},
		"a verification that is not there": {
			text: goodExam, options: written,
			want: strings.Replace(goodExam, "      questions:\n",
				"      verification:\n        by: \"Bob \\\"B\\\"\"\n        at: \"2026-02-01\"\n        digest: \""+digest+"\"\n      questions:\n", 1),
		},
		"a comment above the questions stays there": {
			text: strings.Replace(goodExam, "      questions:\n", "\n      # Part one\n      questions:\n", 1), options: written,
			want: strings.Replace(goodExam, "      questions:\n",
				"\n      verification:\n        by: \"Bob \\\"B\\\"\"\n        at: \"2026-02-01\"\n        digest: \""+digest+"\"\n      # Part one\n      questions:\n", 1),
		},
		"a digest that is not there": {
			text:    strings.Replace(withSeal, "        digest: sha256:"+strings.Repeat("0", 64)+"  # gone\n", "", 1),
			options: DigestOptions{Write: true}, want: resealed,
		},
		"braces": {
			text:    strings.Replace(withSeal, sealed, "      verification: {by: 'A''s', at: \"2026-01-15\"}  # stays\n", 1),
			options: DigestOptions{Write: true},
			want:    strings.Replace(withSeal, sealed, "      verification: {\"by\": \"A's\", \"at\": \"2026-01-15\", \"digest\": \""+digest+"\"}  # stays\n", 1),
		},
		"first entry of its paper": {
			text:    strings.Replace(goodExam, "    - paperID", "    - verification: {by: a, at: '2026-01-15'}\n      paperID", 1),
			want:    strings.Replace(goodExam, "    - paperID", "    - verification: {\"by\": \"a\", \"at\": \"2026-01-15\", \"digest\": \""+digest+"\"}\n      paperID", 1),
			options: DigestOptions{Write: true},
		},
		"at the end of the file": {
			text: strings.Replace(moved, "      verification:\n", "      verification:\n        # gone\n", 1), options: DigestOptions{Write: true},
			want: strings.Replace(moved, "by: a\n        at: '2026-01-15'", "by: \"a\"\n        at: \"2026-01-15\"\n        digest: \""+digest+"\"", 1),
		},
		"after other documents": {
			text: "# head\n---\n" + goodChunk + "---\n" + withSeal, options: ann,
			want: "# head\n---\n" + goodChunk + "---\n" + resealed,
		},
		"carriage returns": {
			text: strings.ReplaceAll(withSeal, "\n", "\r\n"), options: ann,
			want: strings.ReplaceAll(resealed, "\n", "\r\n"),
		},
		"a new seal between carriage returns": {
			text: strings.ReplaceAll(goodExam, "\n", "\r\n"), options: DigestOptions{Write: true, By: "a", At: "2026-02-01"},
			want: strings.ReplaceAll(strings.Replace(goodExam, "      questions:\n",
				"      verification:\n        by: \"a\"\n        at: \"2026-02-01\"\n        digest: \""+digest+"\"\n      questions:\n", 1), "\n", "\r\n"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			checkDigestWrite(t, test.text, test.want, test.options)
		})
	}
}

// checkDigestWrite writes the seal of text into a file, twice, and expects want, with the file's permissions as they were.
func checkDigestWrite(t *testing.T, text, want string, options DigestOptions) {
	t.Helper()
	file := writeExam(t, "exam.yaml", text)
	seal, written, err := digestFile(t, file, options)
	check.NoError(t, err)
	check.Equal(t, written, want, "signed file")
	if !seal.Written || !seal.Matches {
		t.Errorf("have %+v", seal)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("permissions became %v, %v", info.Mode(), err)
	}
	again, unchanged, err := digestFile(t, file, options)
	if err != nil || again.Written || !again.Matches || unchanged != written {
		t.Errorf("a second time: %+v, %v", again, err)
	}
}

func TestDigestWriteOfJSON(t *testing.T) {
	t.Parallel()
	doc, err := syntax.Parse([]byte(goodExam))
	check.NoError(t, err)
	text, err := syntax.CompactJSON(doc.Value)
	check.NoError(t, err)
	seal, changed, err := digestFile(t, writeExam(t, "exam.json", string(text)), DigestOptions{Write: true, By: "é", At: "2026-01-15"})
	if err != nil || !seal.Matches || !strings.Contains(changed, `{"verification": {"by": "é", "at": "2026-01-15", "digest": "sha256:`) {
		t.Errorf("%v\n%s", err, changed)
	}
}

func TestDigestWriteNamesWhatIsMissing(t *testing.T) {
	t.Parallel()
	file := writeExam(t, "exam.yaml", goodExam)
	_, text, err := digestFile(t, file, DigestOptions{Write: true, By: "Ann"})
	var invalid *ProblemsError
	if !errors.As(err, &invalid) || len(invalid.Problems) != 1 || invalid.Problems[0].Field != "spec.papers[0].verification.at" ||
		invalid.Problems[0].Line != 10 {
		t.Errorf("have %v", err)
	}
	check.Equal(t, text, goodExam, "the file")
}

// A reviewer has read the paper that the digest names, and must not vouch for another.
func TestDigestOfAChangedPaperNeedsAReviewer(t *testing.T) {
	t.Parallel()
	_, sealed, err := digestFile(t, writeExam(t, "exam.yaml", goodExam), DigestOptions{Write: true, By: "Ann", At: "2026-01-15"})
	check.NoError(t, err)
	changed := strings.Replace(sealed, "{choice: A}", "{choice: B}", 1)
	for missing, options := range map[string]DigestOptions{
		"at by": {Write: true},
		"at":    {Write: true, By: "Ann"},
		"by":    {Write: true, At: "2026-02-01"},
		"":      {Write: true, By: "Ann", At: "2026-02-01"},
	} {
		_, text, err := digestFile(t, writeExam(t, "exam.yaml", changed), options)
		var named []string
		if problems, ok := errors.AsType[*ProblemsError](err); ok {
			for _, problem := range problems.Problems {
				named = append(named, strings.TrimPrefix(problem.Field, "spec.papers[0].verification."))
				check.Contains(t, problem.Detail, "the paper has changed since", "problem")
			}
		}
		slices.Sort(named)
		check.Equal(t, strings.Join(named, " "), missing, "the fields that are missing")
		if (err == nil) != (missing == "") || (text == changed) != (err != nil) {
			t.Errorf("%q is missing, and the file became\n%s", missing, text)
		}
	}
}

// A reviewer names the paper that was read, and must not vouch for others.
func TestDigestOfAPaperLeavesOthersAsTheyAre(t *testing.T) {
	t.Parallel()
	papers, _, _ := strings.Cut(goodExam, "    - paperID")
	paper := goodExam[len(papers):]
	file := writeExam(t, "exam.yaml", goodExam+strings.Replace(paper, "es-mir-2013", "es-mir-2014", 1))
	seal := DigestOptions{Write: true, By: "Ann", At: "2026-02-01", Paper: "es-mir-2014"}
	report, err := Digest(t.Context(), load(t, file), seal)
	check.NoError(t, err)
	if len(report.Papers) != 1 || report.Papers[0].PaperID != seal.Paper || !report.Papers[0].Written {
		t.Errorf("have %+v", report.Papers)
	}
	for i, paper := range load(t, file).Contents[0].Spec.Papers {
		if (paper.Verification != nil) != (i == 1) {
			t.Errorf("paper %s has the seal %+v", paper.PaperID, paper.Verification)
		}
	}
	seal.Paper = "es-mir-2015"
	if _, err := Digest(t.Context(), load(t, file), seal); err == nil || !strings.Contains(err.Error(), "there is no paper es-mir-2015") {
		t.Errorf("a paper that is not there: %v", err)
	}
}

func TestDigestRefusesAReviewerThatNoSealCanName(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ by, at, option string }{
		{"Ann", "tomorrow", "at"},
		{"Ann", "31.1.2026", "at"},
		{"Ann", "2026-01-31 10:00", "at"},
		{strings.Repeat("é", 201), "2026-01-31", "by"},
		{"A\u0092", "2026-01-31", "by"},
		{" ", "2026-01-31", "by"},
	} {
		file := writeExam(t, "exam.yaml", goodExam)
		_, text, err := digestFile(t, file, DigestOptions{Write: true, By: test.by, At: test.at})
		var refused *ReviewerError
		if !errors.As(err, &refused) || refused.Option != test.option {
			t.Errorf("by %q at %q: %v", test.by, test.at, err)
		}
		check.Equal(t, text, goodExam, "the file")
	}
}

// JSON resources in a row are sealed each in its place.
func TestDigestWriteOfJSONResourcesInARow(t *testing.T) {
	t.Parallel()
	var row strings.Builder
	for _, text := range []string{goodExam, strings.ReplaceAll(goodExam, "es-mir", "es-eir")} {
		doc, err := syntax.Parse([]byte(text))
		check.NoError(t, err)
		asJSON, err := syntax.CompactJSON(doc.Value)
		check.NoError(t, err)
		row.Write(append(asJSON, '\n'))
	}
	file := writeExam(t, "exams.json", row.String())
	options := DigestOptions{Write: true, By: "Ann", At: "2026-02-01"}
	report, err := Digest(t.Context(), load(t, file), options)
	check.NoError(t, err)
	check.Equal(t, len(report.Papers), 2, "papers")
	again, err := Digest(t.Context(), load(t, file), DigestOptions{})
	check.NoError(t, err)
	for i, paper := range again.Papers {
		if !paper.Matches || paper.Digest != report.Papers[i].Digest {
			t.Errorf("%+v", paper)
		}
	}
}
