package manifest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"examprep.dev/api/v1alpha1"
	"examprep.dev/server/catalog"
)

// examOf converts all but the papers.
func examOf(spec *v1alpha1.ExamContentSpec) catalog.Exam {
	exam := catalog.Exam{
		Key:             spec.ExamKey,
		Name:            spec.Name,
		Category:        spec.Category,
		Country:         spec.Country,
		CountryCode:     spec.CountryCode,
		DurationMinutes: int(spec.DurationMinutes),
	}
	for _, section := range spec.Sections {
		exam.Sections = append(exam.Sections, catalog.Section{
			Name:            section.Name,
			DurationMinutes: int(section.DurationMinutes),
			Questions:       int(section.Questions),
			QuestionTypes:   section.QuestionTypes,
			Skills:          section.Skills,
		})
	}
	if spec.Scoring != nil {
		exam.Scoring = freeForm(*spec.Scoring)
	}
	if spec.Resources != nil {
		exam.Resources = catalog.Resources{
			OfficialSites:        linksOf(spec.Resources.OfficialSites),
			PastQuestionsSources: linksOf(spec.Resources.PastQuestionsSources),
		}
	}
	if path := spec.StudyPath; path != nil {
		exam.StudyPath = catalog.StudyPath{Weeks: int(path.Weeks), HoursTotal: path.HoursTotal}
		for _, step := range path.Steps {
			exam.StudyPath.Steps = append(exam.StudyPath.Steps, freeForm(step))
		}
	}
	return exam
}

// freeForm returns compact JSON, so that the same content from a file and from the API server is the same bytes; nil
// for null.
func freeForm(value apiextensionsv1.JSON) json.RawMessage {
	if len(value.Raw) == 0 || bytes.Equal(bytes.TrimSpace(value.Raw), []byte("null")) {
		return nil
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, value.Raw); err != nil {
		return slices.Clone(value.Raw) // catalog.Validate says what is wrong
	}
	return compact.Bytes()
}

func linksOf(links []v1alpha1.Link) []catalog.Link {
	var converted []catalog.Link
	for _, link := range links {
		converted = append(converted, catalog.Link{Title: link.Title, URL: link.URL})
	}
	return converted
}

// paperOf converts all but the questions.
func paperOf(source *v1alpha1.Paper) catalog.Paper {
	paper := catalog.Paper{
		ID:              source.PaperID,
		Title:           source.Title,
		Subject:         source.Subject,
		Year:            int(source.Year),
		DurationMinutes: int(source.DurationMinutes),
		Language:        source.Language,
		Provenance: catalog.Provenance{
			Publisher:    source.Provenance.Publisher,
			SourceURL:    source.Provenance.SourceURL,
			SourceDigest: source.Provenance.SourceDigest,
			License:      source.Provenance.License,
		},
	}
	if source.Marking != nil {
		marking := catalog.Marking(*source.Marking)
		paper.Marking = &marking
	}
	if source.Verification != nil {
		verification := catalog.Verification(*source.Verification)
		paper.Verification = &verification
	}
	return paper
}

// questionOf converts one question, with the schema's defaults; complaint says why its answer is none.
func questionOf(source *v1alpha1.Question, d *defaults) (question catalog.Question, complaint string) {
	question = catalog.Question{
		Section:     int(cmp.Or(source.Section, d.question.Section)),
		SectionName: source.SectionName,
		Number:      int(source.Number),
		Prompt:      source.Prompt,
		Options:     source.Options,
		Explanation: source.Explanation,
		Page:        int(source.Page),
		HasVisual:   source.HasVisual,
		Topic:       source.Topic,
	}
	if len(question.Options) == 0 {
		question.Options = nil // an empty object says the same as none
	}
	question.Answer, complaint = answerOf(&source.Answer)
	return question, complaint
}

func answerOf(source *v1alpha1.Answer) (answer catalog.Answer, complaint string) {
	var given []catalog.Answer
	if source.Choice != "" {
		given = append(given, catalog.Answer{Kind: catalog.AnswerChoice, Choices: []string{source.Choice}})
	}
	if len(source.Choices) > 0 {
		given = append(given, catalog.Answer{Kind: catalog.AnswerChoices, Choices: slices.Sorted(slices.Values(source.Choices))})
	}
	if source.Number != nil {
		number := catalog.Answer{Kind: catalog.AnswerNumeric, Number: *source.Number}
		if source.Tolerance != nil {
			number.Tolerance = *source.Tolerance
		}
		given = append(given, number)
	}
	if source.Text != "" {
		given = append(given, catalog.Answer{Kind: catalog.AnswerText, Text: source.Text})
	}
	if source.Annulled {
		given = append(given, catalog.Answer{Kind: catalog.AnswerAnnulled})
	}
	if source.Unmarkable {
		given = append(given, catalog.Answer{Kind: catalog.AnswerUnmarkable})
	}
	switch {
	case len(given) != 1:
		return catalog.Answer{Kind: catalog.AnswerUnmarkable},
			"give exactly one of choice, choices, number, text, annulled and unmarkable"
	case source.Tolerance != nil && source.Number == nil:
		return given[0], "tolerance belongs to number: remove it, or give a number"
	default:
		return given[0], ""
	}
}
