package manifest

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

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
	sealed := "      verification:\n        by: Ann   # the reviewer\n        at: 2026-01-15\n        digest: sha256:" + strings.Repeat("0", 64) + "  # keep\n"
	withSeal := strings.Replace(goodExam, "      questions:\n", sealed+"      # the questions\n      questions:\n", 1)
	written := DigestOptions{Write: true, By: "Bob \"B\"", At: "2026-02-01"}
	seal, _, err := digestFile(t, writeExam(t, "exam.yaml", goodExam), DigestOptions{})
	check.NoError(t, err)
	digest := seal.Digest
	for name, test := range map[string]struct {
		text, want string
		options    DigestOptions
	}{
		"the digest alone": {
			text: withSeal, options: DigestOptions{Write: true},
			want: strings.Replace(withSeal, "sha256:"+strings.Repeat("0", 64), digest, 1),
		},
		"all of it": {
			text: withSeal, options: written,
			want: strings.NewReplacer("sha256:"+strings.Repeat("0", 64), digest, "by: Ann ", `by: "Bob \"B\"" `, "at: 2026-01-15", `at: "2026-02-01"`).Replace(withSeal),
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
			text: strings.Replace(withSeal, "        digest: sha256:"+strings.Repeat("0", 64)+"  # keep\n", "", 1), options: DigestOptions{Write: true},
			want: strings.Replace(withSeal, "digest: sha256:"+strings.Repeat("0", 64)+"  # keep", `digest: "`+digest+`"`, 1),
		},
		"braces": {
			text:    strings.Replace(withSeal, sealed, "      verification: {by: 'A''s', at: \"2026-01-15\"}\n", 1),
			options: DigestOptions{Write: true},
			want:    strings.Replace(withSeal, sealed, "      verification: {\"digest\": \""+digest+"\", by: 'A''s', at: \"2026-01-15\"}\n", 1),
		},
		"after other documents": {
			text: "# head\n---\n" + goodChunk + "---\n" + withSeal, options: DigestOptions{Write: true},
			want: "# head\n---\n" + goodChunk + "---\n" + strings.Replace(withSeal, "sha256:"+strings.Repeat("0", 64), digest, 1),
		},
		"carriage returns": {
			text: strings.ReplaceAll(withSeal, "\n", "\r\n"), options: DigestOptions{Write: true},
			want: strings.ReplaceAll(strings.Replace(withSeal, "sha256:"+strings.Repeat("0", 64), digest, 1), "\n", "\r\n"),
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
	doc, err := parseText([]byte(goodExam))
	check.NoError(t, err)
	text, err := compactJSON(doc.value)
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
