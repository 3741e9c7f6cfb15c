package content

import (
	"strings"
	"testing"

	"examprep.dev/server/content/assemble"
	"examprep.dev/server/testkit/check"
)

// A file must mean one thing to kubectl, to kustomize and to lint.
func TestLintRefusesWhatReadersTakeForDifferentThings(t *testing.T) {
	t.Parallel()
	numbers := func(text string) lintCase {
		return lintCase{text: goodExam, old: "{number: 2}", new: "{number: " + text + "}"}
	}
	refused := func(c lintCase, want string) lintCase {
		c.want = []string{want}
		return c
	}
	const answer = "exam.yaml:24:28: spec.papers[0].questions[1].answer.number: "
	const ways = " is not a decimal number: leading zeros, 0x, 0o, 0b and _ are read in different ways"
	checkLint(t, map[string]lintCase{
		"octal":                  refused(numbers("0777"), answer+"0777"+ways),
		"octal with a sign":      refused(numbers("-010"), answer+"-010"+ways),
		"a fraction with zeros":  refused(numbers("007.5"), answer+"007.5"+ways),
		"hexadecimal":            refused(numbers("0x1F"), answer+"0x1F"+ways),
		"binary":                 refused(numbers("0b11"), answer+"0b11"+ways),
		"underscores":            refused(numbers("1_000"), answer+"1_000"+ways),
		"2^53 + 1":               refused(numbers("9007199254740993"), answer+"9007199254740993 has more digits than a number keeps: it would be 9007199254740992"),
		"20! + 1":                refused(numbers("2432902008176640001"), answer+"2432902008176640001 has more digits than a number keeps: it would be 2432902008176640000"),
		"2^53 + 1, with a point": refused(numbers("9007199254740993.0"), answer+"9007199254740993.0 has more digits than a number keeps: it would be 9007199254740992"),
		"2^53":                   numbers("9007199254740992"),
		"20!":                    numbers("2432902008176640000"),
		"zero":                   numbers("0"),
		"a fraction":             numbers("-0.25"),
		"an exponent":            numbers("1.5e-3"),
		"a question's number": {
			text: goodExam, old: "number: 2\n", new: "number: 010\n",
			want: []string{"exam.yaml:22:19: spec.papers[0].questions[1].number: 010" + ways},
		},
		"a number in scoring": {
			text: goodExam, old: "  countryCode: ES\n", new: "  scoring: {note: {points: 010}}\n",
			want: []string{"exam.yaml:8:28: spec.scoring.note.points: 010" + ways},
		},
		"a boolean of YAML 1.1": {
			text: goodExam, old: "  countryCode: ES\n", new: "  suspend: no\n",
			want: []string{"exam.yaml:8:12: spec.suspend: must be true or false: no is a boolean to YAML 1.1 and a text to YAML 1.2"},
		},
		"a name that is a boolean to YAML 1.1": {
			text: goodExam, old: "  countryCode: ES\n", new: "  scoring: {on: 1}\n",
			want: []string{"exam.yaml:8:13: spec.scoring.on: is not read as this name by YAML 1.1, which kubectl uses: put quotes around on"},
		},
		"a merge key behind what it may replace": {
			text: goodExam, old: "  countryCode: ES\n", new: "  scoring: {a: &a {x: 1}, b: {x: 2, <<: *a}}\n",
			want: []string{"exam.yaml:8:37: spec.scoring.b.<<: must be the first entry of its mapping: readers of YAML disagree which value applies"},
		},
		"a merge key at the front": {
			text: goodExam, old: "  countryCode: ES\n", new: "  scoring: {a: &a {x: 1}, b: {<<: *a, x: 2}}\n",
		},
		"a key of a ConfigMap twice": {
			text: chunkedExam(), old: "\ndata:\n", new: "\ndata:\n  a: b\n  a: c\n",
			want: []string{"exam.yaml:28:3: data.a: is given twice (first on line 27)"},
		},
	})
}

// Lint drops no text after the first document of a part.
func TestLintReadsEveryDocumentOfAFile(t *testing.T) {
	t.Parallel()
	const tier = `{"apiVersion": "examprep.dev/v1alpha1", "kind": "RateTier", "metadata": {"name": "a"}, "spec": {"requests": 0}}`
	const low = "spec.requests: should be greater than or equal to 1"
	const endpoint = "apiVersion: examprep.dev/v1alpha1\nkind: WebhookEndpoint\nmetadata: {name: a}\nspec: {url: 'http://a.example/', events: [mock_attempt.scored]}\n"
	const second = "a further document begins here, which kubectl and the operator do not read: " +
		"in a file, a line that holds nothing but --- must precede it; in a chunk, make it part of the one list"
	checkLint(t, map[string]lintCase{
		"JSON values in a row": {
			text: tier + "\n" + tier + tier,
			want: []string{"exam.yaml:1:97: " + low, "exam.yaml:2:97: " + low, "exam.yaml:2:208: " + low},
		},
		"JSON values and then something else": {
			text: tier + "\n" + tier[:20],
			want: []string{"exam.yaml:1:97: " + low, "exam.yaml:2:16: unexpected EOF"},
		},
		"JSON behind a byte order mark": {text: "\ufeff" + tier, want: []string{"exam.yaml:1:97: " + low}},
		"a JSON list": {
			text: "[" + tier + "]",
			want: []string{"exam.yaml:1:1: is a list, which kubectl does not read: write one document for each resource, or one of kind List"},
		},
		"a document behind a mark with content": {
			text: goodExam + "--- {apiVersion: v1, kind: ConfigMap}\n", want: []string{"exam.yaml:25:5: " + second},
		},
		"a document behind the end of one": {
			text: goodExam + "...\nkind: other\n", want: []string{"exam.yaml:26: did not find expected <document start>"},
		},
		"a mark with nothing behind it": {text: goodExam + "--- # the end\n"},
		"the same problem in each of three documents": {
			text: endpoint + "---\n" + endpoint + "---\n" + strings.Replace(endpoint, "'http:", "'ftp:", 1),
			want: []string{
				"exam.yaml:4:8: spec.url: url must be an https:// address with a host name",
				"exam.yaml:9:8: spec.url: url must be an https:// address with a host name",
				"exam.yaml:14:8: spec.url: url must be an https:// address with a host name",
			},
		},
		"the same problem in two exams": {
			text: strings.Replace(goodExam+"---\n"+strings.NewReplacer("es-mir", "es-eir", "{choice: A}", "{choice: Q}").Replace(goodExam), "{choice: A}", "{choice: Z}", 1),
			want: []string{
				`exam.yaml:21:20: spec.papers[0].questions[0].answer.choice: answer.choice must be one of the letters under options`,
				`exam.yaml:46:20: spec.papers[0].questions[0].answer.choice: answer.choice must be one of the letters under options`,
			},
		},
	})
}

// forms are chunks, and whether they are ones.
func forms() map[string]bool {
	const one, two = `{"number": 1, "prompt": "p", "answer": {"unmarkable": true}}`, `{"number": 2, "prompt": "p", "answer": {"unmarkable": true}}`
	const yaml = "- {number: 1, prompt: p, answer: {unmarkable: true}}\n"
	return map[string]bool{
		one + "\n" + two:              true,
		"[" + one + ",\n" + two + "]": true,
		yaml:                          true,
		"[" + one + ",\n]":            false,
		"[ # comment\n" + one + "]":   false,
		"[{number: 1, prompt: p, answer: {unmarkable: true}}]": false,
		one + ",\n" + two:              false,
		one + two:                      false,
		"[" + one + "]\n[" + two + "]": false,
		yaml + "---\n- {number: 2, prompt: p, answer: {unmarkable: true}}\n": false,
		yaml + "...\n- {number: 2, prompt: p, answer: {unmarkable: true}}\n": false,
		yaml + "---\n": true,
		"- {number: 01, prompt: p, answer: {unmarkable: true}}":                  false,
		"- {number: 1, prompt: p, answer: {unmarkable: yes}}":                    false,
		`{"number": 1, "prompt": "p", "answer": {"number": 9007199254740993}}`:   false,
		`[{"number": 1, "prompt": "p", "answer": {"number": 9007199254740993}}]`: false,
		"- {number: 1, prompt: p, answer: {number: 9007199254740993}}":           false,
		`{"number": 1, "prompt": "9007199254740993", "answer": {"number": 2.5}}`: true,
	}
}

// The operator reads a chunk with DecodeChunk, and must publish all of what lint passes or nothing.
func TestLintAndTheOperatorReadChunksAlike(t *testing.T) {
	t.Parallel()
	head, _, _ := strings.Cut(chunkedExam(), "    {\"number\":1")
	for chunk, good := range forms() {
		_, err := assemble.DecodeChunk([]byte(chunk))
		check.Equal(t, err == nil, good, "the operator reads %s", chunk)
		var text strings.Builder
		text.WriteString(head)
		for line := range strings.Lines(chunk) {
			text.WriteString("    " + strings.TrimSuffix(line, "\n") + "\n")
		}
		lines := lintText(t, text.String())
		check.Equal(t, len(lines) == 0, good, "lint passes %s: %v", chunk, lines)
		for _, line := range lines {
			check.Contains(t, line, "data[q.jsonl]", "the place of the problem")
		}
	}
}
