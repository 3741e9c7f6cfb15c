package content

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"examprep.dev/server/seals"
	"examprep.dev/server/seals/sealstest"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

// sealedExam is goodExam with a seal by Ann, and its seal.
func sealedExam(t *testing.T) (text string, statement seals.Statement) {
	t.Helper()
	seal, text, err := digestFile(t, writeExam(t, "exam.yaml", goodExam), DigestOptions{Write: true, By: "ann@example.org", At: "2026-01-15"})
	check.NoError(t, err)
	return text, seals.Statement{
		ExamKey: "es-mir", PaperID: "es-mir-2013", Digest: seal.Digest, By: "ann@example.org", At: "2026-01-15",
	}
}

func signFile(t *testing.T, file, signature string) string {
	t.Helper()
	report, err := Sign(t.Context(), load(t, file), "", signature)
	check.NoError(t, err)
	if seal := report.Papers[0]; seal.Signature != SignatureWritten || !strings.HasSuffix(seal.String(), "seal matches, signature written") {
		t.Errorf("have %s, %+v", seal, seal)
	}
	text := testkit.ReadFile(t, file)
	return string(text)
}

func TestWhatIsToBeSignedIsTheSeal(t *testing.T) {
	t.Parallel()
	text, statement := sealedExam(t)
	want, err := statement.Message()
	check.NoError(t, err)
	message, err := Message(t.Context(), load(t, writeExam(t, "exam.yaml", text)), "")
	if err != nil || !bytes.Equal(message, want) {
		t.Errorf("message %s, %v; want %s", message, err, want)
	}
	changed := strings.Replace(text, "{choice: A}", "{choice: B}", 1)
	two := text + "    - {paperID: es-mir-2014, title: MIR, year: 2014, provenance: {publisher: b, sourceURL: 'https://b.example', license: l}, questions: [{number: 1, prompt: p, answer: {number: 1}}]}\n"
	for name, test := range map[string]struct{ text, paper, want string }{
		"no seal":       {goodExam, "", "carries no verification seal"},
		"another seal":  {changed, "", "but its digest is"},
		"no such paper": {text, "es-mir-2012", "no paper es-mir-2012"},
		"which of two":  {two, "", "2 papers in these files: name one with --paper"},
		"the unsealed":  {two, "es-mir-2014", "carries no verification seal"},
		"a twin":        {text + "---\n" + text, "es-mir-2013", "2 papers es-mir-2013 in these files"},
	} {
		if message, err := Message(t.Context(), load(t, writeExam(t, "exam.yaml", test.text)), test.paper); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %s, %v", name, message, err)
		}
	}
	if again, err := Message(t.Context(), load(t, writeExam(t, "exam.yaml", two)), "es-mir-2013"); err != nil || !bytes.Equal(again, want) {
		t.Errorf("by its name: %s, %v", again, err)
	}
}

// signedForms are ways to write the verification of a signed paper.
func signedForms(text, signature string) map[string]string {
	block := "        signature: |\n          " + strings.ReplaceAll(signature, "\n", "\n          ") + "\n"
	before, sealed, _ := strings.Cut(text, "      verification:\n")
	_, digest, _ := strings.Cut(sealed, "digest: ")
	digest, _, _ = strings.Cut(digest, "\n")
	_, questions, _ := strings.Cut(sealed, "      questions:\n")
	after := "      questions:\n" + questions
	verification := func(lines string) string { return before + lines + after }
	const head, by = "      verification:\n", "        by: ann@example.org\n        at: \"2026-01-15\"\n"
	inline := "{by: ann@example.org, at: \"2026-01-15\", digest: " + digest
	return map[string]string{
		"last in a block":      verification(head + by + "        digest: " + digest + "\n" + block + "      # the questions\n"),
		"first in a block":     verification(head + block + by + "        # the digest\n        digest: " + digest + "\n"),
		"one line":             verification(head + by + "        signature: " + quoted(signature) + "  # by laptop\n        digest: " + digest + "\n"),
		"one line at the end":  verification(head + by + "        digest: " + digest + "\n        signature: " + quoted(signature) + "\n\n"),
		"in braces":            verification("      verification: " + inline + ", signature: " + quoted(signature) + "}\n"),
		"in braces, not last":  verification("      verification: {signature: " + quoted(signature) + ", " + inline[1:] + "}\n"),
		"with carriage return": strings.ReplaceAll(verification(head+by+"        digest: "+digest+"\n"+block), "\n", "\r\n"),
	}
}

func TestASignatureTakesThePlaceOfAnother(t *testing.T) {
	t.Parallel()
	text, statement := sealedExam(t)
	first, second := sealstest.New(t), sealstest.New(t)
	old, signature := strings.TrimSpace(first.Sign(t, statement)), second.Sign(t, statement)
	for name, form := range signedForms(text, old) {
		file := writeExam(t, "exam.yaml", form)
		if seal, _, err := digestFile(t, file, DigestOptions{Write: true}); err != nil || seal.Written || seal.Signature != SignaturePresent {
			t.Errorf("%s: before: %+v, %v", name, seal, err)
		}
		written := signFile(t, file, signature)
		content := load(t, file).Contents[0]
		check.Equal(t, strings.TrimSpace(content.Spec.Papers[0].Verification.Signature), strings.TrimSpace(signature), "%s: signature in\n%s", name, written)
		if comment := "# the questions"; strings.Contains(form, comment) && !strings.Contains(written, comment) {
			t.Errorf("%s: a comment is gone:\n%s", name, written)
		}
		if again := signFile(t, file, signature); strings.Count(again, "signature:") != 1 && strings.Count(again, `"signature":`) != 1 {
			t.Errorf("%s: signed again:\n%s", name, again)
		}
	}
	unsigned := writeExam(t, "exam.yaml", text)
	want := strings.Replace(text, "      questions:\n", "        signature: |\n          "+
		strings.ReplaceAll(strings.TrimSpace(signature), "\n", "\n          ")+"\n      questions:\n", 1)
	check.Equal(t, signFile(t, unsigned, signature), want, "signed file")
}

func TestAStaleSignatureDoesNotLinger(t *testing.T) {
	t.Parallel()
	text, statement := sealedExam(t)
	signature := strings.TrimSpace(sealstest.New(t).Sign(t, statement))
	for name, form := range signedForms(text, signature) {
		for what, options := range map[string]DigestOptions{
			"another answer": {Write: true, By: "ann@example.org", At: "2026-02-01"},
			"another name":   {Write: true},
		} {
			text := strings.Replace(form, "ann@example.org", "bob@example.org", 1)
			if options.By != "" {
				text = strings.Replace(form, "{choice: A}", "{choice: B}", 1)
			}
			file := writeExam(t, "exam.yaml", text)
			seal, _, err := digestFile(t, file, DigestOptions{})
			if err != nil || seal.Signature != SignatureStale || !strings.Contains(seal.String(), "SIGNATURE STALE") {
				t.Errorf("%s, %s: not told: %+v, %v", name, what, seal, err)
			}
			seal, written, err := digestFile(t, file, options)
			if err != nil || seal.Signature != SignatureRemoved || !seal.Matches || strings.Contains(written, "signature") {
				t.Errorf("%s, %s: %+v, %v in\n%s", name, what, seal, err, written)
				continue
			}
			if seal, again, err := digestFile(t, file, DigestOptions{Write: true}); err != nil || seal.Written || again != written || seal.Signature != "" {
				t.Errorf("%s, %s: a second time: %+v, %v", name, what, seal, err)
			}
		}
	}
}

func TestASignatureOfAnotherPaperIsNotWritten(t *testing.T) {
	t.Parallel()
	text, statement := sealedExam(t)
	statement.PaperID = "es-mir-2014"
	file := writeExam(t, "exam.yaml", text)
	_, err := Sign(t.Context(), load(t, file), "", sealstest.New(t).Sign(t, statement))
	problems, ok := errors.AsType[*ProblemsError](err)
	if !ok || problems.Problems[0].Field != "spec.papers[0].verification.signature" || problems.Problems[0].Line == 0 {
		t.Errorf("have %v", err)
	}
	if have, err := os.ReadFile(file); err != nil || string(have) != text {
		t.Errorf("the file was changed: %v\n%s", err, have)
	}
}

func TestLintNamesSignaturesThatDoNotCount(t *testing.T) {
	t.Parallel()
	text, statement := sealedExam(t)
	trusted, stranger := sealstest.New(t), sealstest.New(t)
	set := LintOptions{Verifiers: sealstest.Trust(t, trusted.Line("ann@example.org"))}
	signedBy := func(verifier sealstest.Verifier) string {
		return signedForms(text, strings.TrimSpace(verifier.Sign(t, statement)))["last in a block"]
	}
	for name, test := range map[string]struct {
		text    string
		options LintOptions
		want    []string
	}{
		"trusted":              {signedBy(trusted), set, nil},
		"a stranger's":         {signedBy(stranger), set, []string{"spec.papers[0].verification.signature", "no trusted verifier's"}},
		"a stranger's, unseen": {signedBy(stranger), LintOptions{}, nil},
		"stale, unseen":        {strings.Replace(signedBy(trusted), "ann@", "bob@", 1), LintOptions{}, []string{"verification.signature", "not one of this seal"}},
		"garbled, unseen":      {strings.Replace(signedBy(trusted), "U1NI", "AAAA", 1), LintOptions{}, []string{"verification.signature", "damaged"}},
		"of another digest":    {strings.Replace(signedBy(trusted), "{choice: A}", "{choice: B}", 1), set, []string{"spec.papers[0].verification", "but its digest is"}},
		"none":                 {text, set, []string{"spec.papers[0].verification.signature", "is missing"}},
		"no seal":              {goodExam, set, []string{"spec.papers[0].verification", "carries no verification seal"}},
		"no seal, unseen":      {goodExam, LintOptions{}, nil},
	} {
		folder := filepath.Dir(writeExam(t, "exam.yaml", test.text))
		report, err := Lint(t.Context(), load(t, folder), test.options)
		if (err != nil) != (len(test.want) > 0) || len(report.Problems) != min(len(test.want), 1) {
			t.Errorf("%s: %v, %v", name, err, report.Problems)
			continue
		}
		lacks := func(want string) bool { return !strings.Contains(report.Problems[0].String(), want) }
		if slices.ContainsFunc(test.want, lacks) || len(test.want) > 0 && report.Problems[0].Line == 0 {
			t.Errorf("%s: %v", name, report.Problems)
		}
	}
}
