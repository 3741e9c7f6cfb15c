package content

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"examprep.dev/api/v1alpha1"
	"examprep.dev/server/content/assemble"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

const goodExam = `apiVersion: examprep.dev/v1alpha1
kind: ExamContent
metadata:
  name: es-mir
spec:
  examKey: es-mir
  name: MIR
  countryCode: ES
  papers:
    - paperID: es-mir-2013
      title: MIR 2013
      year: 2013
      provenance:
        publisher: Ministerio de Sanidad
        sourceURL: https://example.com/mir
        license: reuse permitted
      questions:
        - number: 1
          prompt: One?
          options: {A: yes it is, B: no it is not}
          answer: {choice: A}
        - number: 2
          prompt: Two?
          answer: {number: 2}
`

const goodChunk = `---
apiVersion: v1
kind: ConfigMap
metadata:
  name: chunk
  labels:
    examprep.dev/content: "true"
data:
  q.jsonl: |
    {"number":1,"prompt":"One?","options":{"A":"a","B":"b"},"answer":{"choice":"A"}}
    {"number":2,"prompt":"Two?","answer":{"number":2}}
`

func chunkedExam() string {
	head, _, _ := strings.Cut(goodExam, "      questions:\n")
	return head + "      questionsFrom:\n        - configMapKeyRef: {name: chunk, key: q.jsonl}\n" + goodChunk
}

func manyQuestions(count int) string {
	var text strings.Builder
	for number := range count {
		fmt.Fprintf(&text, "        - {number: %d, prompt: p, answer: {annulled: true}}\n", number+10)
	}
	return text.String()
}

func lintText(t *testing.T, text string) []string {
	t.Helper()
	folder := t.TempDir()
	testkit.WriteFile(t, filepath.Join(folder, "exam.yaml"), []byte(text))
	report, err := Lint(t.Context(), load(t, folder), LintOptions{})
	if (err != nil) != (len(report.Problems) > 0) {
		t.Errorf("error %v beside %d problems", err, len(report.Problems))
	}
	lines := make([]string, 0, len(report.Problems))
	for _, problem := range report.Problems {
		lines = append(lines, strings.ReplaceAll(problem.String(), folder+string(filepath.Separator), ""))
	}
	return lines
}

// lintCase is a file, in which new may take the place of old, and what lint finds in it.
type lintCase struct {
	text, old, new string
	want           []string
}

func checkLint(t *testing.T, cases map[string]lintCase) {
	t.Helper()
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text := test.text
			if test.old != "" {
				text = strings.Replace(text, test.old, test.new, 1)
				if text == test.text {
					t.Fatalf("the case changes nothing: %q", test.old)
				}
			}
			if have := lintText(t, text); !slices.Equal(have, test.want) {
				t.Errorf("have:\n%s\nwant:\n%s", strings.Join(have, "\n"), strings.Join(test.want, "\n"))
			}
		})
	}
}

func TestLintNamesFileLineAndField(t *testing.T) {
	t.Parallel()
	checkLint(t, map[string]lintCase{
		"nothing wrong": {text: goodExam},
		"syntax": {
			text: goodExam, old: "name: MIR\n", new: "name: [MIR\n",
			want: []string{`exam.yaml:7: did not find expected ',' or ']'`},
		},
		"syntax in the second document": {
			text: chunkedExam(), old: "  name: chunk\n", new: "  name: 'chunk\n",
			want: []string{
				"exam.yaml:18:11: spec.papers[0].questionsFrom[0]: ConfigMap default/chunk not found",
				"exam.yaml:23: found unexpected end of stream",
			},
		},
		"duplicate key": {
			text: goodExam, old: "  countryCode: ES\n", new: "  countryCode: ES\n  name: MIR\n",
			want: []string{"exam.yaml:9:3: spec.name: is given twice (first on line 7)"},
		},
		"unknown field": {
			text: goodExam, old: "          prompt: Two?", new: "          promt: Two?",
			want: []string{
				"exam.yaml:22:11: spec.papers[0].questions[1].prompt: is required",
				"exam.yaml:23:11: spec.papers[0].questions[1].promt: unknown field",
			},
		},
		"wrong type": {
			text: goodExam, old: "year: 2013", new: "year: '2013'",
			want: []string{"exam.yaml:12:7: spec.papers[0].year: must be of type integer, is string"},
		},
		"a country that is a boolean to YAML 1.1": {
			text: goodExam, old: "countryCode: ES", new: "countryCode: NO",
			want: []string{"exam.yaml:8:3: spec.countryCode: must be of type string, is boolean: put quotes around NO"},
		},
		"null": {
			text: goodExam, old: "  name: MIR\n", new: "  name:\n",
			want: []string{"exam.yaml:7:3: spec.name: is null; leave the field out instead"},
		},
		"a misspelt group": {
			text: goodExam, old: "examprep.dev/v1alpha1", new: "examprep.dev/v1alpha2",
			want: []string{"exam.yaml:1:1: apiVersion: must be examprep.dev/v1alpha1, is examprep.dev/v1alpha2"},
		},
		"a field of another case": {
			text: goodExam, old: "countryCode: ES", new: "countrycode: ES",
			want: []string{"exam.yaml:8:3: spec.countrycode: unknown field; did you mean countryCode?"},
		},
		"nothing to check": {text: "a: 1\n", want: []string{".: no resource of examprep.dev/v1alpha1 found in 1 files"}},
	})
}

func TestLintHoldsAnExamAgainstTheRules(t *testing.T) {
	t.Parallel()
	checkLint(t, map[string]lintCase{
		"a letter that is not offered": {
			text: goodExam, old: "{choice: A}", new: "{choice: C}",
			want: []string{`exam.yaml:21:20: spec.papers[0].questions[0].answer.choice: answer.choice must be one of the letters under options`},
		},
		"two answers in one": {
			text: goodExam, old: "{number: 2}", new: "{number: 2, text: two}",
			want: []string{"exam.yaml:24:11: spec.papers[0].questions[1].answer: give exactly one of choice, choices, number, text, annulled and unmarkable"},
		},
		"no provenance": {
			text: goodExam, old: "        publisher: Ministerio de Sanidad\n", new: "",
			want: []string{"exam.yaml:13:7: spec.papers[0].provenance.publisher: is required"},
		},
		"the same question twice": {
			text: goodExam, old: "number: 2\n", new: "number: 1\n",
			want: []string{"exam.yaml:22:11: spec.papers[0].questions[1].number: section 1 has a question 1 already: questions[0]"},
		},
		"an interval below the least": {
			text: goodExam, old: "  countryCode: ES\n", new: "  resyncInterval: 5s\n",
			want: []string{"exam.yaml:8:3: spec.resyncInterval: resyncInterval must be a duration of at least 30s, for example 10m or 1h30m"},
		},
		"an interval that is none": {
			text: goodExam, old: "  countryCode: ES\n", new: "  resyncInterval: soon\n",
			want: []string{`exam.yaml:8:3: spec.resyncInterval: resyncInterval must be a duration of at least 30s, for example 10m or 1h30m`},
		},
		"more questions than may be inline": {
			text: goodExam, old: "        - number: 2\n", new: manyQuestions(v1alpha1.MaxInlineQuestions) + "        - number: 2\n",
			want: []string{"exam.yaml:17:7: spec.papers[0].questions: must have at most 250 items"},
		},
		"an exam key twice": {
			text: goodExam + "---\n" + strings.Replace(goodExam, "name: es-mir", "name: other", 1),
			want: []string{"exam.yaml:31:3: spec.examKey: exam es-mir is declared already in exam.yaml:6"},
		},
	})
}

func TestLintReadsTheQuestionsOfConfigMaps(t *testing.T) {
	t.Parallel()
	checkLint(t, map[string]lintCase{
		"nothing wrong in chunks": {text: chunkedExam()},
		"missing key": {
			text: chunkedExam(), old: "key: q.jsonl", new: "key: p.jsonl",
			want: []string{"exam.yaml:18:11: spec.papers[0].questionsFrom[0]: ConfigMap default/chunk has no key p.jsonl"},
		},
		"missing label": {
			text: chunkedExam(), old: "  labels:\n    examprep.dev/content: \"true\"\n", new: "",
			want: []string{`exam.yaml:22:1: metadata.labels: lacks examprep.dev/content: "true": without it the operator does not notice changes at once`},
		},
		"a wrong letter in a chunk": {
			text: chunkedExam(), old: `{"choice":"A"}`, new: `{"choice":"C"}`,
			want: []string{`exam.yaml:28: data[q.jsonl][0].answer.choice: ConfigMap chunk, key q.jsonl, line 1: "C" is not among the options`},
		},
		"an unknown field in a chunk": {
			text: chunkedExam(), old: `"number":2,`, new: `"nunber":2,`,
			want: []string{`exam.yaml:29: data[q.jsonl][1].nunber: ConfigMap chunk, key q.jsonl, line 2: unknown field`},
		},
		"broken JSON in a chunk": {
			text: chunkedExam(), old: `{"number":2,`, new: `{"number":2`,
			want: []string{`exam.yaml:29: data[q.jsonl]: ConfigMap chunk, key q.jsonl, line 2: invalid character '"' after object key:value pair`},
		},
		"another chunk than meant": {
			text: chunkedExam(), old: "key: q.jsonl}", new: "key: q.jsonl}\n          digest: sha256:" + strings.Repeat("0", 64),
			want: []string{"exam.yaml:19:11: spec.papers[0].questionsFrom[0].digest: the chunk's digest is " +
				"sha256:dcd285c7784c9624661cbc97be635f2ea53637aaa39b24522ad58033e562b46d, declared is sha256:" + strings.Repeat("0", 64)},
		},
		"a ConfigMap twice": {
			text: chunkedExam() + goodChunk,
			want: []string{"exam.yaml:34:3: metadata.name: ConfigMap default/chunk is declared already in exam.yaml:20"},
		},
		"a ConfigMap of somebody else twice": {
			text: goodExam + strings.Repeat("---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n", 2),
		},
	})
}

func TestLintKnowsTheKindsOfTheGroup(t *testing.T) {
	t.Parallel()
	checkLint(t, map[string]lintCase{
		"a kind that is not ours": {text: goodExam + "---\nkind: Secret\napiVersion: v1\ndata: {a: 1}\n"},
		"an unknown kind of the group": {
			text: goodExam + "---\nkind: ExamContents\napiVersion: examprep.dev/v1alpha1\n",
			want: []string{`exam.yaml:26:1: kind: unknown kind "ExamContents" in examprep.dev/v1alpha1: known are ExamContent, RateTier and WebhookEndpoint`},
		},
		"a webhook": {
			text: "apiVersion: examprep.dev/v1alpha1\nkind: WebhookEndpoint\nmetadata: {name: a}\nspec:\n  url: http://example.com\n  events: [mock_attempt.scored, mock_attempt.done]\n",
			want: []string{
				"exam.yaml:5:3: spec.url: must begin with https://",
				`exam.yaml:6:33: spec.events[1]: mock_attempt.done is not supported: supported values: "mock_attempt.submitted", "mock_attempt.scored", "exam.content_updated"`,
			},
		},
		"a rate tier": {
			text: "apiVersion: examprep.dev/v1alpha1\nkind: RateTier\nmetadata: {}\nspec:\n  requests: 0\n  period: 25h\n",
			want: []string{
				"exam.yaml:3:1: metadata.name: is required",
				"exam.yaml:5:3: spec.requests: should be greater than or equal to 1",
				"exam.yaml:6:3: spec.period: period must be whole seconds between 1s and 24h, for example 60s",
			},
		},
		"accounts with blanks at their ends": {
			text: "apiVersion: examprep.dev/v1alpha1\nkind: RateTier\nmetadata: {name: a}\nspec:\n  requests: 10\n  accounts: [acme, 'globex ']\n" +
				"---\napiVersion: examprep.dev/v1alpha1\nkind: WebhookEndpoint\nmetadata: {name: a}\nspec:\n  url: https://example.com\n" +
				"  events: [mock_attempt.scored]\n  account: ' acme'\n",
			want: []string{
				"exam.yaml:6:20: spec.accounts[1]: an account must not begin or end with a blank or an invisible character",
				"exam.yaml:14:3: spec.account: account must not begin or end with a blank or an invisible character",
			},
		},
		"a period of a part of a second": {
			text: "apiVersion: examprep.dev/v1alpha1\nkind: RateTier\nmetadata: {name: a}\nspec:\n  requests: 10\n  period: 1500ms\n",
			want: []string{"exam.yaml:6:3: spec.period: period must be whole seconds between 1s and 24h, for example 60s"},
		},
	})
}

// lintReport is for what checkLint does not show: the severity of problems, and that warnings alone are not an error.
func lintReport(t *testing.T, text string, options LintOptions) (LintReport, error) {
	t.Helper()
	return Lint(t.Context(), load(t, writeExam(t, "exam.yaml", text)), options)
}

func TestLintRefusesChunksThatAreTooLargeTogether(t *testing.T) {
	t.Parallel()
	var zipped bytes.Buffer
	writer := gzip.NewWriter(&zipped)
	line := `{"number":1,"prompt":"p","answer":{"annulled":true}}` + "\n"
	_, err := writer.Write([]byte(line + strings.Repeat("\n", assemble.MaxChunkBytes-len(line))))
	check.NoError(t, errors.Join(err, writer.Close()))
	head, _, _ := strings.Cut(chunkedExam(), "\ndata:\n")
	ref := "        - configMapKeyRef: {name: chunk, key: q.jsonl}\n"
	count := 1 + assemble.MaxExamBytes/assemble.MaxChunkBytes
	text := strings.Replace(head, ref, strings.Repeat(ref, count), 1) +
		"\nbinaryData: {q.jsonl: " + base64.StdEncoding.EncodeToString(zipped.Bytes()) + "}\n"
	report, err := lintReport(t, text, LintOptions{})
	if err == nil || len(report.Problems) != 1 || report.Problems[0].Field != "spec.papers[0].questionsFrom[4]" ||
		!strings.Contains(report.Problems[0].Detail, "together") {
		t.Errorf("have %v, %v", report.Problems, err)
	}
}

func TestLintWarnsOfWhatPreventsNoPublication(t *testing.T) {
	t.Parallel()
	const seal = "      verification: {by: a, at: '2026-01-31', digest: 'sha256:" // and the digest of another paper
	for name, test := range map[string]struct{ old, new, field, detail string }{
		"a key of scoring of another shape": {
			"  countryCode: ES\n", "  scoring: {pass_mark: much}\n", "spec.scoring.pass_mark", "must be a number",
		},
		"LaTeX that lost a backslash": {
			"prompt: Two?", `prompt: "2 \times 3"`, "spec.papers[0].questions[1].prompt", `if \times is meant`,
		},
		"a seal of other content": {
			"      questions:\n", seal + strings.Repeat("0", 64) + "'}\n      questions:\n",
			"spec.papers[0].verification", "the paper is sealed as sha256:00",
		},
	} {
		report, err := lintReport(t, strings.Replace(goodExam, test.old, test.new, 1), LintOptions{})
		if err != nil || len(report.Problems) != 1 {
			t.Errorf("%s: have %v, %v; want one warning and no error", name, report.Problems, err)
			continue
		}
		found := report.Problems[0]
		if found.Severity != SeverityWarning || found.Field != test.field || found.Line == 0 || !strings.Contains(found.Detail, test.detail) {
			t.Errorf("%s: %+v", name, found)
		}
		check.Contains(t, found.String(), ": warning: ", name)
		var text strings.Builder
		check.NoError(t, report.WriteText(&text))
		check.Contains(t, text.String(), "1 warnings", name)
	}
}

// A roll-back must work while the content is broken, in a repository that runs lint too.
func TestLintOfAPinnedExamDoesNotJudgeItsContent(t *testing.T) {
	t.Parallel()
	broken := strings.Replace(chunkedExam(), `{"choice":"A"}`, `{"choice":"Z"}`, 1)
	checkLint(t, map[string]lintCase{
		"a broken chunk":  {text: broken, old: "  countryCode: ES\n", new: "  revision: 3\n"},
		"a missing chunk": {text: strings.Replace(broken, "{name: chunk,", "{name: other,", 1), old: "  countryCode: ES\n", new: "  revision: 3\n"},
		"a broken question": {
			text: strings.Replace(goodExam, "{choice: A}", "{choice: Z}", 1), old: "  countryCode: ES\n", new: "  revision: 3\n",
			want: []string{"exam.yaml:21:20: spec.papers[0].questions[0].answer.choice: answer.choice must be one of the letters under options"},
		},
		"an unknown field": {
			text: goodExam, old: "  countryCode: ES\n", new: "  revision: 3\n  nane: x\n",
			want: []string{"exam.yaml:9:3: spec.nane: unknown field"},
		},
	})
}

func TestLintNamesLineFieldAndCharacter(t *testing.T) {
	t.Parallel()
	checkLint(t, map[string]lintCase{
		"LaTeX in double quotes": {
			text: goodExam, old: "prompt: Two?", new: `prompt: "\frac{1}{2}"`,
			want: []string{"exam.yaml:23:11: spec.papers[0].questions[1].prompt: must not contain U+000C, which a backslash and the letter f make in a quoted text: write two backslashes for LaTeX"},
		},
		"LaTeX in a chunk": {
			text: chunkedExam(), old: `"prompt":"Two?"`, new: `"prompt":"\beta"`,
			want: []string{"exam.yaml:29: data[q.jsonl][1].prompt: ConfigMap chunk, key q.jsonl, line 2: must not contain U+0008, which a backslash and the letter b make in a quoted text: write two backslashes for LaTeX"},
		},
		"an apostrophe of Windows-1252": {
			text: goodExam, old: "prompt: Two?", new: `prompt: "don\u0092t"`,
			want: []string{"exam.yaml:23:11: spec.papers[0].questions[1].prompt: must not contain U+0092, which is ’ in Windows-1252: convert the text from Windows-1252 to UTF-8"},
		},
		"lines of Windows": {text: goodExam, old: "prompt: Two?", new: `prompt: "one\r\ntwo"`},
	})
}

func TestLintKnowsTheRulesOfTheServers(t *testing.T) {
	t.Parallel()
	const tier = "apiVersion: examprep.dev/v1alpha1\nkind: RateTier\nmetadata: {name: a}\nspec: {requests: 7, period: 60s}\n"
	const endpoint = "apiVersion: examprep.dev/v1alpha1\nkind: WebhookEndpoint\nmetadata: {name: a}\nspec: {url: 'https://a.example/', events: [mock_attempt.scored]}\n"
	const long = "exam.yaml:3:12: metadata.name: must have at most "
	checkLint(t, map[string]lintCase{
		"the longest name of an endpoint with a generated Secret": {text: endpoint, old: "name: a", new: "name: " + strings.Repeat("a", 238)},
		"a longer one": {
			text: endpoint, old: "name: a", new: "name: " + strings.Repeat("a", 239),
			want: []string{long + "238 characters without spec.signingSecretRef: the generated Secret is named after it"},
		},
		"a longer one with a Secret of its own": {
			text: strings.Replace(endpoint, "name: a", "name: "+strings.Repeat("a", 239), 1), old: "spec: {", new: "spec: {signingSecretRef: {name: s}, ",
		},
		"the longest name of a tier": {text: tier, old: "name: a", new: "name: " + strings.Repeat("a", 200)},
		"a longer name of a tier":    {text: tier, old: "name: a", new: "name: " + strings.Repeat("a", 201), want: []string{"exam.yaml:3:12: metadata.name: must not be longer than 200 characters"}},
		"too many requests": {
			text: tier, old: "requests: 7", new: "requests: 10000001", want: []string{"exam.yaml:4:8: spec.requests: should be less than or equal to 10000000"},
		},
		"a burst that cannot be counted": {
			text: tier, old: "requests: 7, period: 60s", new: "requests: 9999991, period: 86399s, burst: 9999999",
			want: []string{"exam.yaml:4:43: spec.burst: is too large for this period to be counted exactly"},
		},
		"a bad port": {text: endpoint, old: "a.example/", new: "a.example:99999/", want: []string{"exam.yaml:4:8: spec.url: has an invalid port"}},
		"a private address, which may be allowed": {text: endpoint, old: "a.example/", new: "10.0.0.1/"},
	})
}
