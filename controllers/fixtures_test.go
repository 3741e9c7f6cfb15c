package controllers

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"examprep.dev/api/v1alpha1"
	"examprep.dev/server/content/assemble"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

// sampleKey is an exam key of this test's own, so that tests may share a database one day.
func sampleKey(t *testing.T) string {
	t.Helper()
	return "xx-" + strings.Trim(strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z' || r >= '0' && r <= '9':
			return r
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		default:
			return '-'
		}
	}, t.Name()), "-")
}

func sampleContent(name, examKey string) *v1alpha1.ExamContent {
	content := &v1alpha1.ExamContent{}
	content.Name = name
	content.Spec = v1alpha1.ExamContentSpec{
		ExamKey: examKey, Name: "Sample exam", Category: "samples", Country: "Spain", CountryCode: "ES",
		DurationMinutes: 90,
		Sections:        []v1alpha1.Section{{Name: "All", Questions: 2, QuestionTypes: []string{"single_choice"}}},
		Scoring:         &apiextensionsv1.JSON{Raw: []byte(`{"pass_mark": 1, "note": {"free": ["form"]}}`)},
		StudyPath:       &v1alpha1.StudyPath{Weeks: 2, HoursTotal: 7.5, Steps: []apiextensionsv1.JSON{{Raw: []byte(`{"week":1,"title":"Begin"}`)}}},
		Papers:          []v1alpha1.Paper{samplePaper(examKey + "-2023")},
	}
	return content
}

func samplePaper(id string) v1alpha1.Paper {
	return v1alpha1.Paper{
		PaperID: id, Title: "Sample 2023", Year: 2023, Language: "en",
		Marking:    &v1alpha1.Marking{Correct: 3, Incorrect: -1},
		Provenance: v1alpha1.Provenance{Publisher: "Board", SourceURL: "https://example.org/2023.pdf", License: "CC0-1.0"},
		Questions:  []v1alpha1.Question{sampleQuestion(1), sampleQuestion(2)},
	}
}

func sampleQuestion(number int32) v1alpha1.Question {
	return v1alpha1.Question{
		Section: 1, Number: number, Prompt: fmt.Sprintf("Question %d?", number),
		Options: map[string]string{"A": "one", "B": "two", "C": "three"},
		Answer:  v1alpha1.Answer{Choice: "B"},
	}
}

// chunkedPaper is a paper whose questions are in one ConfigMap, a chunk for each of the given digests; an empty digest is
// left out of the reference.
func chunkedPaper(id, configMap string, digests ...string) v1alpha1.Paper {
	paper := samplePaper(id)
	paper.Questions = nil
	for i, digest := range digests {
		paper.QuestionsFrom = append(paper.QuestionsFrom, v1alpha1.QuestionSource{
			ConfigMapKeyRef: v1alpha1.ConfigMapKeyRef{Name: configMap, Key: chunkKey(i)},
			Digest:          digest,
		})
	}
	return paper
}

func chunkKey(i int) string { return fmt.Sprintf("part-%d.json", i) }

func chunk(t *testing.T, first, last int32) (text, digest string) {
	t.Helper()
	var questions []v1alpha1.Question
	for number := first; number <= last; number++ {
		questions = append(questions, sampleQuestion(number))
	}
	raw := testkit.Encode(t, questions)
	return string(raw), assemble.ChunkDigest(raw)
}

func chunkMap(name string, chunks ...string) *corev1.ConfigMap {
	configMap := &corev1.ConfigMap{Data: make(map[string]string, len(chunks))}
	configMap.Name = name
	configMap.Labels = map[string]string{v1alpha1.ContentLabel: "true"}
	for i, text := range chunks {
		configMap.Data[chunkKey(i)] = text
	}
	return configMap
}

func compress(t *testing.T, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := w.Write([]byte(text))
	check.NoError(t, err)
	check.NoError(t, w.Close())
	return b.Bytes()
}
