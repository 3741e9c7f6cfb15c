package jsonl

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"examprep.dev/api/v1alpha1"
	"examprep.dev/server/content/syntax"
)

// The neutral form of exams: exams.json, papers.jsonl and questions.jsonl. A null says that nothing is on record.

type neutralExam struct {
	ExamKey string `json:"exam_key"`
	// Kind is "pool" for an exam whose papers are question pools.
	Kind        string           `json:"kind"`
	Name        string           `json:"name"`
	Category    string           `json:"category"`
	Country     string           `json:"country"`
	CountryCode string           `json:"country_code"`
	DurationMin int32            `json:"duration_min"`
	Sections    []neutralSection `json:"sections"`
	Scoring     json.RawMessage  `json:"scoring"`
	Resources   *struct {
		OfficialSites        []v1alpha1.Link `json:"official_sites"`
		PastQuestionsSources []v1alpha1.Link `json:"past_questions_sources"`
	} `json:"resources"`
	StudyPath *struct {
		StudyWeeks      int32                  `json:"study_weeks"`
		StudyHoursTotal float64                `json:"study_hours_total"`
		StudyPath       []apiextensionsv1.JSON `json:"study_path"`
	} `json:"study_path"`
}

type neutralSection struct {
	Name          string   `json:"name"`
	DurationMin   int32    `json:"duration_min"`
	Questions     int32    `json:"questions"`
	QuestionTypes []string `json:"question_types"`
	Skills        []string `json:"skills"`
}

type neutralPaper struct {
	ExamKey string `json:"exam_key"`
	PaperID string `json:"paper_id"`
	Title   string `json:"title"`
	Subject string `json:"subject"`
	Year    int32  `json:"year"`
	// Kind is "sitting", "partial" or "pool".
	Kind        string            `json:"kind"`
	DurationMin int32             `json:"duration_min"`
	Marking     *v1alpha1.Marking `json:"marking"`
	Language    string            `json:"language"`
	Provenance  struct {
		Publisher     string `json:"publisher"`
		SourceURL     string `json:"source_url"`
		License       string `json:"license"`
		Dataset       string `json:"dataset"`
		RetrievedFrom string `json:"retrieved_from"`
	} `json:"provenance"`
	QuestionCount *int `json:"question_count"`
}

type neutralQuestion struct {
	PaperID     string            `json:"paper_id"`
	Section     int32             `json:"section"`
	SectionName string            `json:"section_name"`
	Number      int32             `json:"number"`
	Prompt      string            `json:"prompt"`
	Options     map[string]string `json:"options"`
	Answer      neutralAnswer     `json:"answer"`
	Explanation string            `json:"explanation"`
	Page        int32             `json:"page"`
	HasVisual   bool              `json:"has_visual"`
	Topic       string            `json:"topic"`
}

type neutralAnswer struct {
	Kind      string          `json:"kind"`
	Value     json.RawMessage `json:"value"`
	Tolerance *float64        `json:"tolerance"`
}

func (e *neutralExam) spec() v1alpha1.ExamContentSpec {
	spec := v1alpha1.ExamContentSpec{
		ExamKey:         e.ExamKey,
		Name:            e.Name,
		Category:        e.Category,
		Country:         e.Country,
		CountryCode:     e.CountryCode,
		DurationMinutes: e.DurationMin,
	}
	for _, section := range e.Sections {
		spec.Sections = append(spec.Sections, v1alpha1.Section{
			Name:            section.Name,
			DurationMinutes: section.DurationMin,
			Questions:       section.Questions,
			QuestionTypes:   section.QuestionTypes,
			Skills:          section.Skills,
		})
	}
	if scoring := bytes.TrimSpace(e.Scoring); len(scoring) > 0 && string(scoring) != "null" && string(scoring) != "{}" {
		spec.Scoring = &apiextensionsv1.JSON{Raw: scoring}
	}
	if e.Resources != nil {
		spec.Resources = &v1alpha1.Resources{
			OfficialSites:        e.Resources.OfficialSites,
			PastQuestionsSources: e.Resources.PastQuestionsSources,
		}
	}
	if e.StudyPath != nil {
		spec.StudyPath = &v1alpha1.StudyPath{
			Weeks:      e.StudyPath.StudyWeeks,
			HoursTotal: e.StudyPath.StudyHoursTotal,
			Steps:      e.StudyPath.StudyPath,
		}
	}
	return spec
}

// paper converts a paper without its questions. sourceDigest is the digest of their lines.
func (p *neutralPaper) paper(sourceDigest string) v1alpha1.Paper {
	return v1alpha1.Paper{
		PaperID:         p.PaperID,
		Title:           p.Title,
		Subject:         p.Subject,
		Year:            p.Year,
		DurationMinutes: p.DurationMin,
		Language:        p.Language,
		Marking:         p.Marking,
		Provenance: v1alpha1.Provenance{
			Publisher:    p.Provenance.Publisher,
			SourceURL:    p.Provenance.SourceURL,
			SourceDigest: sourceDigest,
			License:      p.Provenance.License,
		},
	}
}

// comment is what has no field: the data set that a paper was taken from.
func (p *neutralPaper) comment() string {
	var parts []string
	if p.Provenance.Dataset != "" {
		parts = append(parts, "Data set: "+p.Provenance.Dataset)
	}
	if p.Provenance.RetrievedFrom != "" {
		parts = append(parts, "taken from "+p.Provenance.RetrievedFrom)
	}
	return oneLine(strings.Join(parts, ", "))
}

// oneLine makes text fit for a comment.
func oneLine(text string) string {
	return strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r == ' ' || syntax.NeedsEscape(r) }), " ")
}

func (q *neutralQuestion) question() (v1alpha1.Question, error) {
	answer, err := q.Answer.answer()
	return v1alpha1.Question{
		Section:     q.Section,
		SectionName: q.SectionName,
		Number:      q.Number,
		Prompt:      q.Prompt,
		Options:     q.Options,
		Answer:      answer,
		Explanation: q.Explanation,
		Page:        q.Page,
		HasVisual:   q.HasVisual,
		Topic:       q.Topic,
	}, err
}

// answer fails with the text for a person, of the field answer or below it.
func (a *neutralAnswer) answer() (answer v1alpha1.Answer, err error) {
	var target any
	switch a.Kind {
	case "choice":
		target = &answer.Choice
	case "choices":
		target = &answer.Choices
	case "numeric":
		target = &answer.Number
		answer.Tolerance = a.Tolerance
	case "text":
		target = &answer.Text
	case "annulled":
		answer.Annulled = true
		return answer, nil
	case "unmarkable":
		answer.Unmarkable = true
		return answer, nil
	case "":
		return answer, fmt.Errorf("kind is required")
	default:
		return answer, fmt.Errorf("unknown kind %q: known are choice, choices, numeric, text, annulled and unmarkable", a.Kind)
	}
	if len(a.Value) == 0 || string(a.Value) == "null" {
		return answer, fmt.Errorf("a %s answer needs a value", a.Kind)
	}
	if err := json.Unmarshal(a.Value, target); err != nil {
		return answer, fmt.Errorf("a %s answer cannot be %.60s", a.Kind, a.Value)
	}
	return answer, nil
}
