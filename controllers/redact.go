package controllers

import (
	"strings"

	"examprep.dev/server/catalog"
	"examprep.dev/server/content/assemble"
)

// notShown takes the place of a text whose answers cannot be cut out.
const notShown = "is refused; the conditions say why"

// eventNote returns the text of an error for an event. Conditions are for the authors of a resource; events reach people and systems
// that must not see an answer key. So every value of an answer is left out here, whatever the error is.
func eventNote(err error) string {
	text := err.Error()
	replaced := make(map[string]bool)
	visit(err, func(single error) {
		public := redacted(single)
		if public == "" {
			return
		}
		shown := single.Error()
		if !replaced[shown] && !strings.Contains(text, shown) {
			text = notShown // it may have the answers in other words
		}
		replaced[shown] = true
		text = strings.ReplaceAll(text, shown, public)
	})
	return text
}

// visit calls see with err and everything that it wraps.
func visit(err error, see func(error)) {
	if err == nil {
		return
	}
	see(err)
	switch wrapper := err.(type) { //nolint:errorlint // walks the tree itself
	case interface{ Unwrap() []error }:
		for _, inner := range wrapper.Unwrap() {
			visit(inner, see)
		}
	case interface{ Unwrap() error }:
		visit(wrapper.Unwrap(), see)
	}
}

// invalidAnswer stands for all that is wrong with an answer.
const invalidAnswer = "is not valid; the conditions say why"

// redacted returns the text of a single error without answers, and nothing for an error that shows none.
func redacted(err error) string {
	switch shown := err.(type) { //nolint:errorlint // visit looks into what it wraps
	case *catalog.SealError:
		public := *shown
		if len(shown.Changes) > 0 {
			public.Changes = nil
			return public.Error() + "; condition Published lists the changes"
		}
	case *catalog.ValidationError:
		public := catalog.ValidationError{Omitted: shown.Omitted}
		for _, problem := range shown.Problems {
			public.Problems = append(public.Problems, redactedProblem(problem))
		}
		return public.Error()
	case *assemble.ChunkError:
		problem := redactedProblem(catalog.Problem{Field: shown.Field, Detail: shown.Detail})
		public := assemble.ChunkError{Line: shown.Line, Field: problem.Field, Detail: problem.Detail}
		return public.Error()
	}
	return ""
}

// redactedProblem cuts off everything after the word answer. A question of a chunk has its field in the detail.
func redactedProblem(problem catalog.Problem) catalog.Problem {
	if before, _, found := strings.Cut(problem.Field, "].answer"); found {
		return catalog.Problem{Field: before + "].answer", Detail: invalidAnswer}
	}
	if before, _, found := strings.Cut(problem.Detail, ", answer"); found {
		return catalog.Problem{Field: problem.Field, Detail: before + ", answer: " + invalidAnswer}
	}
	return problem
}
