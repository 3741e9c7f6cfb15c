package assemble

import (
	"bytes"
	"compress/gzip"
	"errors"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"examprep.dev/api/v1alpha1"
	"examprep.dev/server/content/syntax"
	"examprep.dev/server/testkit/check"
)

func compress(t testing.TB, text []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	writer := gzip.NewWriter(&out)
	_, err := writer.Write(text)
	check.NoError(t, err)
	check.NoError(t, writer.Close())
	return out.Bytes()
}

// decodeStored reads a chunk as a ConfigMap stores it.
func decodeStored(raw []byte) ([]v1alpha1.Question, error) {
	text, err := ChunkText(raw, MaxChunkBytes)
	if err != nil {
		return nil, err
	}
	questions, problems := DecodeChunk(text)
	if len(problems) > 0 {
		return nil, &problems[0]
	}
	return questions, nil
}

func TestDecodeChunkReadsEveryForm(t *testing.T) {
	t.Parallel()
	number := 2.5
	want := []v1alpha1.Question{
		{Number: 1, Prompt: "One: ¿sí?", Options: map[string]string{"A": "a", "B": "b"}, Answer: v1alpha1.Answer{Choice: "A"}},
		{Number: 2, Prompt: "Two 😀", Answer: v1alpha1.Answer{Number: &number}},
	}
	first := `{"number":1,"prompt":"One: ¿sí?","options":{"A":"a","B":"b"},"answer":{"choice":"A"}}`
	second := `{"number":2,"prompt":"Two \ud83d\ude00","answer":{"number":2.5}}`
	for name, text := range map[string]string{
		"JSON Lines":                     first + "\n" + second + "\n",
		"JSON Lines, CRLF, blanks, BOM":  "\ufeff" + first + "\r\n\r\n" + second,
		"JSON array":                     " [" + first + ",\n" + second + "]\n",
		"YAML list":                      "# questions\n- number: 1\n  prompt: 'One: ¿sí?'\n  options: {A: a, B: b}\n  answer: {choice: A}\n- number: 2\n  prompt: Two 😀\n  answer:\n    number: 2.5\n",
		"YAML list with document marker": "---\n- {number: 1, prompt: 'One: ¿sí?', options: {A: a, B: b}, answer: {choice: A}}\n- {number: 2, prompt: Two 😀, answer: {number: 2.5}}\n",
	} {
		for form, raw := range map[string][]byte{"plain": []byte(text), "gzip": compress(t, []byte(text))} {
			have, err := decodeStored(raw)
			if err != nil || !reflect.DeepEqual(have, want) {
				t.Errorf("%s, %s: %v\nhave %+v\nwant %+v", name, form, err, have, want)
			}
		}
	}
}

func TestDecodeChunkNamesLineAndField(t *testing.T) {
	t.Parallel()
	good := `{"number":1,"prompt":"One?","answer":{"number":1}}` + "\n"
	for name, test := range map[string]struct{ text, want string }{
		"empty":                      {"", "line 1: holds no question"},
		"comments":                   {"# none\n", "line 1: holds no question"},
		"empty list":                 {"[]", "holds no question"},
		"object":                     {"questions: []", "line 1: must be a list of questions"},
		"scalar":                     {"hello", "line 1: must be a list of questions"},
		"broken line":                {good + `{"number":2,` + "\n" + good, "line 2: unexpected EOF"},
		"two objects in a line":      {good + `{"number":2}{}`, "line 2: text after the JSON value"},
		"unknown field":              {good + `{"nomber":2}`, "line 2: [1].nomber: unknown field"},
		"wrong case":                 {`{"Number":2}`, "line 1: [0].Number: unknown field"},
		"key given twice":            {`{"number":2,"number":3}`, "line 1: [0].number: is given twice (first on line 1)"},
		"wrong type":                 {"[\n  {\"number\": \"2\"}\n]", "line 2: [0].number: must be a whole number, is a text"},
		"fraction":                   {`{"number":2.5}`, "line 1: [0].number: must be a whole number, is the number 2.5"},
		"out of range":               {`{"number":99999999999}`, "line 1: [0].number: 99999999999 is out of range"},
		"number in the answer":       {"- number: 1\n  answer: {choice: 1}\n", "line 2: [0].answer.choice: must be a text, is a number: put quotes around 1"},
		"option letter that is true": {"- number: 1\n  options:\n    N: no\n", "line 3: [0].options.N: is not read as this name by YAML 1.1, which kubectl uses: put quotes around N"},
		"YAML key given twice":       {"- number: 1\n  number: 2\n", "line 2: [0].number: is given twice (first on line 1)"},
		"not UTF-8":                  {good + "{\"prompt\":\"\xff\"}", "line 2: is not valid UTF-8"},
		"broken gzip":                {"\x1f\x8b\x00", "broken gzip: unexpected EOF"},
	} {
		_, err := decodeStored([]byte(test.text))
		if invalid, ok := errors.AsType[*ChunkError](err); !ok {
			t.Errorf("%s: want a *ChunkError, have %v", name, err)
		} else if invalid.Error() != test.want {
			t.Errorf("%s:\nhave %s\nwant %s", name, invalid, test.want)
		}
	}
}

func TestDecodeChunkBoundsDecompression(t *testing.T) {
	t.Parallel()
	bomb := compress(t, bytes.Repeat([]byte(" "), MaxChunkBytes+1))
	if len(bomb) > 1<<20 {
		t.Fatalf("the bomb would not fit into a ConfigMap: %d bytes", len(bomb))
	}
	_, err := decodeStored(bomb)
	var invalid *ChunkError
	if !errors.As(err, &invalid) || !strings.Contains(invalid.Detail, "split it") {
		t.Errorf("have %v", err)
	}
}

func FuzzDecodeChunk(f *testing.F) {
	for _, seed := range []string{
		"", "[]", "{}", "- number: 1\n", `{"number":1,"prompt":"p","answer":{"number":1e3}}` + "\n{}",
		`[{"options":{"A":"a"},"answer":{"choices":["A"]}}]`, "&a [*a]", "- &a {number: 1}\n- *a\n- <<: *a\n", "\x1f\x8b", "--- [\n...",
	} {
		f.Add([]byte(seed))
		f.Add(compress(f, []byte(seed)))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		questions, err := decodeStored(raw)
		var invalid *ChunkError
		switch {
		case err != nil && !errors.As(err, &invalid):
			t.Fatalf("untyped error: %v", err)
		case err != nil && !utf8.ValidString(invalid.Detail):
			t.Fatalf("a detail that is no text: %q", invalid.Detail)
		case err == nil && len(questions) == 0:
			t.Fatal("no question and no error")
		}
		if err != nil {
			return
		}
		var lines bytes.Buffer // what was read survives Import's own form
		for _, question := range questions {
			line, err := syntax.CompactJSON(question)
			check.NoError(t, err)
			lines.Write(append(line, '\n'))
		}
		again, err := decodeStored(lines.Bytes())
		if err != nil || !sameQuestions(questions, again) {
			t.Fatalf("%v\nfirst %+v\nagain %+v", err, questions, again)
		}
	})
}

// sameQuestions compares as JSON does: an empty map is an absent one.
func sameQuestions(a, b []v1alpha1.Question) bool {
	left, leftErr := syntax.CompactJSON(a)
	right, rightErr := syntax.CompactJSON(b)
	return leftErr == nil && rightErr == nil && bytes.Equal(left, right)
}
