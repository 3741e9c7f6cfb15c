package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"examprep.dev/api/v1alpha1"
)

const (
	// contentNamespace is where all ExamContents are.
	contentNamespace = "bench"
	// questionsPerPaper is a usual paper's length.
	questionsPerPaper = 100
	// overviewSize is the size in bytes of the overview of an exam with rules.
	overviewSize = 4096
)

// words are what texts are made of: as much variety as prose has, since texts are compressed.
var words = strings.Fields(`of the reaction with following angle which force between triangle mass is velocity a cell
statement correct about energy given are plant number two solution when equal membrane ratio in density and conductor
temperature to value acid at function minimum water from root enzyme maximum current by metal each sphere most`)

// prose returns a text of count words.
func prose(chance *rand.Rand, count int) string {
	text := make([]string, count)
	for i := range text {
		text[i] = words[chance.IntN(len(words))]
	}
	return strings.Join(text, " ")
}

// examContent returns an exam with its questions inline. The same arguments give the same exam.
func examContent(key string, seed uint64, papers, questions int) *v1alpha1.ExamContent {
	chance := rand.New(rand.NewPCG(seed, 1))
	content := &v1alpha1.ExamContent{}
	content.APIVersion, content.Kind = v1alpha1.GroupVersion.String(), "ExamContent"
	content.Namespace, content.Name = contentNamespace, key
	content.Spec = v1alpha1.ExamContentSpec{
		ExamKey: key, Name: "Benchmark exam " + key, Category: "bench", Country: "Spain", CountryCode: "ES", DurationMinutes: 180,
		Sections: []v1alpha1.Section{{Name: "All", DurationMinutes: 180, Questions: int32(questions)}},
	}
	for p := range papers {
		content.Spec.Papers = append(content.Spec.Papers, newPaper(chance, fmt.Sprintf("%s-%04d", key, p), int32(2000+p), questions))
	}
	return content
}

// withRules gives an exam a scoring rubric that makes its overview as large as overviewSize.
func withRules(content *v1alpha1.ExamContent) *v1alpha1.ExamContent {
	chance := rand.New(rand.NewPCG(0, 2))
	var rules []string
	for size := 300; size < overviewSize; {
		next := prose(chance, 20)
		rules = append(rules, next)
		size += len(next) + len(`"",`)
	}
	raw, _ := json.Marshal(map[string]any{"rules": rules}) //nolint:errchkjson // strings always encode
	content.Spec.Scoring = &apiextensionsv1.JSON{Raw: raw}
	return content
}

func newPaper(chance *rand.Rand, id string, year int32, questions int) v1alpha1.Paper {
	made := v1alpha1.Paper{
		PaperID: id, Title: "Paper " + id, Subject: "all", Year: year, Language: "en",
		Marking:    &v1alpha1.Marking{Correct: 4, Incorrect: -1},
		Provenance: v1alpha1.Provenance{Publisher: "bench", SourceURL: "https://example.com/" + id, License: "CC0-1.0"},
	}
	for n := range questions {
		made.Questions = append(made.Questions, v1alpha1.Question{
			Section: 1, Number: int32(n + 1), Prompt: prose(chance, 30), Explanation: prose(chance, 20), Page: int32(n/5 + 1),
			Options: map[string]string{"A": prose(chance, 4), "B": prose(chance, 4), "C": prose(chance, 4), "D": prose(chance, 4)},
			Answer:  v1alpha1.Answer{Choice: string(rune('A' + chance.IntN(4)))},
		})
	}
	return made
}

// encodeContent returns a resource as JSON, without the status, which is the operator's.
func encodeContent(content *v1alpha1.ExamContent) ([]byte, error) {
	text, err := json.Marshal(content)
	if err != nil {
		return nil, fmt.Errorf("encode a resource: %w", err)
	}
	var fields map[string]any
	if err := json.Unmarshal(text, &fields); err != nil {
		return nil, fmt.Errorf("encode a resource: %w", err)
	}
	delete(fields, "status")
	if text, err = json.Marshal(fields); err != nil {
		return nil, fmt.Errorf("encode a resource: %w", err)
	}
	return text, nil
}
