package assemble

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"examprep.dev/api/v1alpha1"
	"examprep.dev/server/catalog"
)

// examOf converts the exam without its papers.
func examOf(spec *v1alpha1.ExamContentSpec) catalog.Exam {
	exam := catalog.Exam{
		Key:             spec.ExamKey,
		Name:            Lines(spec.Name),
		Category:        Lines(spec.Category),
		Country:         Lines(spec.Country),
		CountryCode:     spec.CountryCode,
		DurationMinutes: int(spec.DurationMinutes),
	}
	for _, section := range spec.Sections {
		exam.Sections = append(exam.Sections, catalog.Section{
			Name:            Lines(section.Name),
			DurationMinutes: int(section.DurationMinutes),
			Questions:       int(section.Questions),
			QuestionTypes:   linesOf(section.QuestionTypes),
			Skills:          linesOf(section.Skills),
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

// freeForm returns compact JSON, so that a value from a file and from the API server has the same bytes. It returns nil for null.
func freeForm(value apiextensionsv1.JSON) json.RawMessage {
	if len(value.Raw) == 0 || bytes.Equal(bytes.TrimSpace(value.Raw), []byte("null")) {
		return nil
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, value.Raw); err != nil {
		return slices.Clone(value.Raw) // catalog.Validate says what is wrong
	}
	return linesOfJSON(compact.Bytes())
}

// Lines returns a text with LF for each CR LF, which some editors write instead.
func Lines(text string) string {
	if strings.IndexByte(text, '\r') < 0 {
		return text
	}
	return strings.ReplaceAll(text, "\r\n", "\n")
}

func linesOf(texts []string) []string {
	if !slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(text, "\r") }) {
		return texts
	}
	converted := make([]string, len(texts))
	for i, text := range texts {
		converted[i] = Lines(text)
	}
	return converted
}

func optionsOf(options map[string]string) map[string]string {
	for _, text := range options {
		if strings.IndexByte(text, '\r') < 0 {
			continue
		}
		converted := make(map[string]string, len(options))
		for letter, text := range options {
			converted[letter] = Lines(text)
		}
		return converted
	}
	return options
}

// linesOfJSON is Lines for the texts of a JSON value: it removes an escaped CR before an escaped LF.
func linesOfJSON(raw []byte) []byte {
	if bytes.IndexByte(raw, '\\') < 0 {
		return raw
	}
	out := make([]byte, 0, len(raw))
	for i := 0; i < len(raw); {
		size := escapeSize(raw[i:])
		if !isEscapeOf(raw[i:], 'r', "000d") || !isEscapeOf(raw[i+size:], 'n', "000a") {
			out = append(out, raw[i:i+size]...)
		}
		i += size
	}
	return out
}

// escapeSize returns the size of the escape or byte that begins a valid JSON text.
func escapeSize(text []byte) int {
	switch {
	case text[0] != '\\' || len(text) < 2:
		return 1
	case text[1] == 'u':
		return min(len(`\u0000`), len(text))
	default:
		return 2
	}
}

// isEscapeOf reports whether text begins with the escape of a character, as a letter or in hexadecimal.
func isEscapeOf(text []byte, letter byte, hex string) bool {
	if len(text) < 2 || text[0] != '\\' {
		return false
	}
	return text[1] == letter || text[1] == 'u' && len(text) >= 6 && strings.EqualFold(string(text[2:6]), hex)
}

func linksOf(links []v1alpha1.Link) []catalog.Link {
	var converted []catalog.Link
	for _, link := range links {
		converted = append(converted, catalog.Link{Title: Lines(link.Title), URL: Lines(link.URL)})
	}
	return converted
}

// paperOf converts a paper without its questions.
func paperOf(source *v1alpha1.Paper) catalog.Paper {
	paper := catalog.Paper{
		ID:              source.PaperID,
		Title:           Lines(source.Title),
		Subject:         Lines(source.Subject),
		Year:            int(source.Year),
		DurationMinutes: int(source.DurationMinutes),
		Language:        source.Language,
		Provenance: catalog.Provenance{
			Publisher:    Lines(source.Provenance.Publisher),
			SourceURL:    source.Provenance.SourceURL,
			SourceDigest: source.Provenance.SourceDigest,
			License:      Lines(source.Provenance.License),
		},
	}
	if source.Marking != nil {
		marking := catalog.Marking(*source.Marking)
		paper.Marking = &marking
	}
	if source.Verification != nil {
		verification := catalog.Verification(*source.Verification)
		verification.Signature = Lines(verification.Signature)
		paper.Verification = &verification
	}
	return paper
}

// questionOf converts one question. A question without a section is in section 1. complaint is empty if its answer has one kind.
func questionOf(source *v1alpha1.Question) (question catalog.Question, complaint string) {
	question = catalog.Question{
		Section:     int(cmp.Or(source.Section, 1)),
		SectionName: Lines(source.SectionName),
		Number:      int(source.Number),
		Prompt:      Lines(source.Prompt),
		Options:     source.Options,
		Explanation: Lines(source.Explanation),
		Page:        int(source.Page),
		HasVisual:   source.HasVisual,
		Topic:       Lines(source.Topic),
	}
	if len(question.Options) == 0 {
		question.Options = nil // an empty object says the same as none
	}
	question.Options = optionsOf(question.Options)
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
		given = append(given, catalog.Answer{Kind: catalog.AnswerText, Text: Lines(source.Text)})
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
