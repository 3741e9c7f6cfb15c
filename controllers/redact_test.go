package controllers

import (
	"errors"
	"strings"
	"testing"

	"examprep.dev/api/v1alpha1"
	"examprep.dev/server/catalog"
	"examprep.dev/server/content/assemble"
	"examprep.dev/server/seals"
	"examprep.dev/server/testkit/check"
)

func answerChange() []catalog.Change {
	return []catalog.Change{{Kind: catalog.Changed, PaperID: "paper-1", AnswerID: "1:2", Field: "answer", Old: "SECRET", New: "SECRET"}}
}

// An event names the place of a problem and never an answer, whatever refuses the resource.
func TestEventsShowNoAnswer(t *testing.T) {
	t.Parallel()
	inResource := catalog.Problem{Field: "spec.papers[0].questions[1].answer.choice", Detail: `"SECRET" is not among the options`}
	inChunk := catalog.Problem{Field: "spec.papers[0].questionsFrom[0]", Detail: `ConfigMap c, key q, question 1:2, answer.choices: names "SECRET" twice`}
	title := catalog.Problem{Field: "spec.papers[0].title", Detail: "is required"}
	chunk := &assemble.ChunkError{Line: 3, Field: "[1].answer.text", Detail: "must be a text, is the number SECRET: put quotes around SECRET"}
	reference := &assemble.RefError{Field: "spec.papers[0].questionsFrom[0]", Detail: "ConfigMap c, key q: " + chunk.Error(), Err: chunk}
	for name, test := range map[string]struct {
		err  error
		want []string
	}{
		"a seal of other content": {
			&catalog.SealError{PaperID: "paper-1", Have: "sha256:00", Changes: answerChange(), Others: []string{"paper-2"}},
			[]string{"paper paper-1 is sealed as sha256:00", "paper-2", "condition Published lists the changes"},
		},
		"a seal that no trusted verifier signed": {
			&catalog.SealError{PaperID: "paper-1", Changes: answerChange(), Untrusted: &seals.SignatureError{Detail: "signature is missing"}},
			[]string{"paper paper-1 is not signed by a trusted verifier", "condition Published lists the changes"},
		},
		"wrong answers": {
			&catalog.ValidationError{Problems: []catalog.Problem{inResource, inChunk, title}},
			[]string{"spec.papers[0].questions[1].answer: is not valid", "question 1:2, answer: is not valid", "spec.papers[0].title: is required"},
		},
		"a chunk that cannot be read": {reference, []string{"spec.papers[0].questionsFrom[0]: ConfigMap c, key q: line 3: [1].answer: is not valid"}},
		"several references": {
			assemble.Errors{reference, &assemble.ChunkMissingError{Namespace: "n", Name: "c", Key: "k"}},
			[]string{"[1].answer: is not valid", "ConfigMap n/c not found"},
		},
		"another error": {errors.New("as it is"), []string{"as it is"}},
	} {
		blocked := stalled(v1alpha1.ConditionAccepted, v1alpha1.ReasonInvalid, &described{"spec.field: " + test.err.Error(), test.err})
		note := eventNote(blocked)
		for _, want := range append(test.want, "spec.field: ") {
			check.Contains(t, note, want, name)
		}
		if strings.Contains(note, "SECRET") {
			t.Errorf("%s: the event says %s", name, note)
		}
	}
}

// A text that does not repeat its error's words can have the answers in words of its own.
func TestAnEventShowsNothingOfATextInOtherWords(t *testing.T) {
	t.Parallel()
	cause := &catalog.ValidationError{Problems: []catalog.Problem{{Field: "papers[0].questions[1].answer.choice", Detail: `"SECRET" is not an option`}}}
	blocked := stalled(v1alpha1.ConditionAccepted, v1alpha1.ReasonInvalid, &described{"spec: the answer is SECRET", cause})
	check.Equal(t, eventNote(blocked), notShown, "the event's text")
}
