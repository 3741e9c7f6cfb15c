package assemble

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"examprep.dev/api/v1alpha1"
	"examprep.dev/server/catalog"
	"examprep.dev/server/testkit/check"
)

// chunkTable is a ChunkReader for tests of errors; "!" stands for a source that cannot be asked.
type chunkTable map[string]string

var errSourceAway = errors.New("source away")

func (c chunkTable) ReadChunk(_ context.Context, namespace, name, key string) ([]byte, error) {
	text, found := c[name+"/"+key]
	switch {
	case text == "!":
		return nil, errSourceAway
	case !found:
		return nil, &ChunkMissingError{Namespace: namespace, Name: name, Key: key}
	}
	return []byte(text), nil
}

func contentWith(refs ...v1alpha1.QuestionSource) *v1alpha1.ExamContent {
	content := &v1alpha1.ExamContent{Spec: v1alpha1.ExamContentSpec{
		ExamKey: "es-mir", Name: "MIR",
		Papers: []v1alpha1.Paper{{
			PaperID: "es-mir-2013", Title: "MIR 2013", Year: 2013,
			Provenance:    v1alpha1.Provenance{Publisher: "p", SourceURL: "https://example.com", License: "l"},
			QuestionsFrom: refs,
		}},
	}}
	content.Namespace = "exams"
	return content
}

func ref(name string) v1alpha1.QuestionSource {
	return v1alpha1.QuestionSource{ConfigMapKeyRef: v1alpha1.ConfigMapKeyRef{Name: name, Key: "q"}}
}

func TestAssembleJoinsChunksInOrder(t *testing.T) {
	t.Parallel()
	exam, err := Assemble(t.Context(), contentWith(ref("b"), ref("a")), chunkTable{
		"a/q": `{"number":1,"prompt":"p","answer":{"annulled":true}}`,
		"b/q": `{"section":2,"number":1,"prompt":"p","options":{"A":"a","B":"b"},"answer":{"choices":["B","A"]}}`,
	})
	check.NoError(t, err)
	questions := exam.Exam().Papers[0].Questions
	if len(questions) != 2 || questions[0].Section != 2 || questions[1].Section != 1 {
		t.Fatalf("have %+v", questions)
	}
	check.Equal(t, strings.Join(questions[0].Answer.Choices, ""), "AB", "letters are not sorted")
}

func TestAssembleTellsMissingChunksFromBadOnes(t *testing.T) {
	t.Parallel()
	stale := ref("stale")
	stale.Digest = ChunkDigest([]byte("another"))
	_, err := Assemble(t.Context(), contentWith(ref("none"), stale, ref("bad")), chunkTable{
		"stale/q": `{"number":1,"prompt":"p","answer":{"annulled":true}}`,
		"bad/q":   `{"nunber":1}`,
	})
	var missing *ChunkMissingError
	if !errors.As(err, &missing) || missing.Field != "spec.papers[0].questionsFrom[0]" || missing.Namespace != "exams" {
		t.Errorf("missing: have %+v", missing)
	}
	var digest *ChunkDigestError
	if !errors.As(err, &digest) || digest.Want != stale.Digest {
		t.Errorf("digest: have %+v", digest)
	}
	var chunk *ChunkError
	if !errors.As(err, &chunk) || chunk.Line != 1 || chunk.Field != "[0].nunber" {
		t.Errorf("chunk: have %+v", chunk)
	}
	var all Errors
	if !errors.As(err, &all) || len(all) != 3 {
		t.Errorf("all: have %v", err)
	}
}

func TestAssembleReturnsTheReadersOwnErrors(t *testing.T) {
	t.Parallel()
	_, err := Assemble(t.Context(), contentWith(ref("away")), chunkTable{"away/q": "!"})
	var missing *ChunkMissingError
	var bad *RefError
	if !errors.Is(err, errSourceAway) || errors.As(err, &missing) || errors.As(err, &bad) {
		t.Errorf("have %v", err)
	}
}

func TestAssembleNamesFieldsOfTheResource(t *testing.T) {
	t.Parallel()
	inline := contentWith()
	inline.Spec.Papers[0].Questions = []v1alpha1.Question{
		{Number: 1, Prompt: "p", Options: map[string]string{"A": "a", "B": "b"}, Answer: v1alpha1.Answer{Choice: "C"}},
		{Number: 2, Prompt: "p"},
	}
	chunked := contentWith(ref("a"), ref("b"))
	chunks := chunkTable{
		"a/q": `{"number":1,"prompt":"p","answer":{"annulled":true}}`,
		"b/q": `{"number":2,"prompt":"p","answer":{"annulled":true}}` + "\n" +
			`{"number":3,"prompt":"p","options":{"A":"a","B":"b"},"answer":{"choice":"C"}}`,
	}
	for name, test := range map[string]struct {
		content *v1alpha1.ExamContent
		want    []catalog.Problem
	}{
		"inline": {inline, []catalog.Problem{
			{Field: "spec.papers[0].questions[1].answer", Detail: "give exactly one of choice, choices, number, text, annulled and unmarkable"},
			{Field: "spec.papers[0].questions[0].answer.choice", Detail: `"C" is not among the options`},
		}},
		"chunked": {chunked, []catalog.Problem{
			{Field: "spec.papers[0].questionsFrom[1]", Detail: `ConfigMap b, key q, question 1:3, answer.choice: "C" is not among the options`},
		}},
	} {
		_, err := Assemble(t.Context(), test.content, chunks)
		var invalid *catalog.ValidationError
		if !errors.As(err, &invalid) {
			t.Errorf("%s: want a *catalog.ValidationError, have %v", name, err)
			continue
		}
		for i, want := range test.want {
			if i >= len(invalid.Problems) || invalid.Problems[i] != want {
				t.Errorf("%s: have %+v\nwant %+v", name, invalid.Problems, test.want)
				break
			}
		}
	}
}

func TestAssembleBoundsTheChunksOfAnExamTogether(t *testing.T) {
	t.Parallel()
	line := `{"number":1,"prompt":"p","answer":{"annulled":true}}`
	big := line + strings.Repeat(" ", MaxChunkBytes-len(line))
	refs := []v1alpha1.QuestionSource{ref("a"), ref("a"), ref("a"), ref("a"), ref("a")}
	_, err := Assemble(t.Context(), contentWith(refs...), chunkTable{"a/q": big})
	var bad *RefError
	if !errors.As(err, &bad) || bad.Field != "spec.papers[0].questionsFrom[4]" {
		t.Errorf("have %v", err)
	}
}

// An editor on Windows must not change a seal.
func TestAssembleReadsLinesOfWindowsAsLines(t *testing.T) {
	t.Parallel()
	digest := func(end string) string {
		content := contentWith()
		content.Spec.Papers[0].Questions = []v1alpha1.Question{{
			Section: 1, Number: 1, Prompt: "one" + end + end + "two", Options: map[string]string{"A": "a" + end + "b", "B": "c"},
			Answer: v1alpha1.Answer{Choice: "A"}, Explanation: end + "why", Topic: "t" + end,
		}}
		content.Spec.Name = "a" + end + "b"
		raw, err := json.Marshal(map[string]any{"note": []string{end + end, `\r\n is no line end` + end}})
		check.NoError(t, err)
		content.Spec.Scoring = &apiextensionsv1.JSON{Raw: raw}
		exam, err := Assemble(t.Context(), content, nil)
		check.NoError(t, err)
		identity, err := catalog.Identify(exam)
		check.NoError(t, err)
		check.Contains(t, string(exam.Exam().Scoring), `\\r\\n is no`, "scoring")
		return identity.Digest.String()
	}
	check.Equal(t, digest("\r\n"), digest("\n"), "digest")
}
