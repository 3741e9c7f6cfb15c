package manifest

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

// examOf converts all but the papers.
func examOf(spec *v1alpha1.ExamContentSpec) catalog.Exam {
	exam := catalog.Exam{
		Key:             spec.ExamKey,
		Name:            lines(spec.Name),
		Category:        lines(spec.Category),
		Country:         lines(spec.Country),
		CountryCode:     spec.CountryCode,
		DurationMinutes: int(spec.DurationMinutes),
	}
	for _, section := range spec.Sections {
		exam.Sections = append(exam.Sections, catalog.Section{
			Name:            lines(section.Name),
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
	return linesOfJSON(compact.Bytes())
}

// lines returns a text with the line ends of Unix: CR LF is what an editor makes of LF.
func lines(text string) string {
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
		converted[i] = lines(text)
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
			converted[letter] = lines(text)
		}
		return converted
	}
	return options
}

// linesOfJSON does for the texts of a JSON value what lines does: an escaped CR before an escaped LF goes.
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

// escapeSize is how many bytes of valid JSON belong together at its beginning.
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

// isEscapeOf reports whether text begins with an escape, of a letter or of the hexadecimal number of its character.
func isEscapeOf(text []byte, letter byte, hex string) bool {
	if len(text) < 2 || text[0] != '\\' {
		return false
	}
	return text[1] == letter || text[1] == 'u' && len(text) >= 6 && strings.EqualFold(string(text[2:6]), hex)
}

func linksOf(links []v1alpha1.Link) []catalog.Link {
	var converted []catalog.Link
	for _, link := range links {
		converted = append(converted, catalog.Link{Title: lines(link.Title), URL: lines(link.URL)})
	}
	return converted
}

// paperOf converts all but the questions.
func paperOf(source *v1alpha1.Paper) catalog.Paper {
	paper := catalog.Paper{
		ID:              source.PaperID,
		Title:           lines(source.Title),
		Subject:         lines(source.Subject),
		Year:            int(source.Year),
		DurationMinutes: int(source.DurationMinutes),
		Language:        source.Language,
		Provenance: catalog.Provenance{
			Publisher:    lines(source.Provenance.Publisher),
			SourceURL:    source.Provenance.SourceURL,
			SourceDigest: source.Provenance.SourceDigest,
			License:      lines(source.Provenance.License),
		},
	}
	if source.Marking != nil {
		marking := catalog.Marking(*source.Marking)
		paper.Marking = &marking
	}
	if source.Verification != nil {
		verification := catalog.Verification(*source.Verification)
		verification.Signature = lines(verification.Signature)
		paper.Verification = &verification
	}
	return paper
}

// questionOf converts one question, with the schema's defaults; complaint says why its answer is none.
func questionOf(source *v1alpha1.Question, d *defaults) (question catalog.Question, complaint string) {
	question = catalog.Question{
		Section:     int(cmp.Or(source.Section, d.question.Section)),
		SectionName: lines(source.SectionName),
		Number:      int(source.Number),
		Prompt:      lines(source.Prompt),
		Options:     source.Options,
		Explanation: lines(source.Explanation),
		Page:        int(source.Page),
		HasVisual:   source.HasVisual,
		Topic:       lines(source.Topic),
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
		given = append(given, catalog.Answer{Kind: catalog.AnswerText, Text: lines(source.Text)})
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
