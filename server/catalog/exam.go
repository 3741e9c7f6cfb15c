package catalog

import (
	"encoding/json"
	"slices"
)

// Exam is one exam as its owner declares it: the specification, its links, its study path and its papers.
type Exam struct {
	// Key names the exam in paths; it never changes.
	Key         string `json:"exam_key"`
	Name        string `json:"name"`
	Category    string `json:"category,omitempty"`
	Country     string `json:"country,omitempty"`
	CountryCode string `json:"country_code,omitempty"`
	// DurationMinutes is the whole exam's time limit; 0 when none is on record.
	DurationMinutes int       `json:"duration_min,omitempty"`
	Sections        []Section `json:"sections,omitempty"`
	// Scoring is the free-form rubric, served unchanged; ParseScoring reads the keys in docs/spec.md, part 2.
	Scoring   json.RawMessage `json:"scoring,omitempty"`
	Resources Resources       `json:"resources"`
	StudyPath StudyPath       `json:"study_path"`
	Papers    []Paper         `json:"-"`
}

// Section is a part of the exam's official specification.
type Section struct {
	Name            string   `json:"name"`
	DurationMinutes int      `json:"duration_min,omitempty"`
	Questions       int      `json:"questions,omitempty"`
	QuestionTypes   []string `json:"question_types,omitempty"`
	Skills          []string `json:"skills,omitempty"`
}

// Resources are verified links.
type Resources struct {
	OfficialSites        []Link `json:"official_sites,omitempty"`
	PastQuestionsSources []Link `json:"past_questions_sources,omitempty"`
}

// Link is a titled address.
type Link struct {
	Title string `json:"title"`
	URL   string `json:"url"`
}

// StudyPath is the suggested way to the exam. Steps are free-form objects, served as they are.
type StudyPath struct {
	Weeks      int               `json:"study_weeks,omitempty"`
	HoursTotal float64           `json:"study_hours_total,omitempty"`
	Steps      []json.RawMessage `json:"study_path,omitempty"`
}

// Paper is one real past paper with its answer key.
type Paper struct {
	ID      string
	Title   string
	Subject string
	// Year groups papers in the catalogue, so that Validate requires it.
	Year int
	// DurationMinutes overrides the exam's; 0 when the paper gives none.
	DurationMinutes int
	// Language is a BCP 47 tag.
	Language string
	// Marking is nil when the paper leaves it to the exam's scoring.
	Marking      *Marking
	Provenance   Provenance
	Verification *Verification
	Questions    []Question
}

// Marking is what one answer earns, in marks. Incorrect may be negative.
type Marking struct {
	Correct    float64 `json:"correct"`
	Incorrect  float64 `json:"incorrect"`
	Unanswered float64 `json:"unanswered"`
}

// Provenance tells where a paper comes from: only real past questions are ever served.
type Provenance struct {
	Publisher    string `json:"publisher"`
	SourceURL    string `json:"source_url"`
	SourceDigest string `json:"source_digest,omitempty"`
	License      string `json:"license"`
}

// Verification is a reviewer's seal. Digest is the digest of the paper's canonical form at the time of the check.
type Verification struct {
	By     string `json:"by"`
	At     string `json:"at"`
	Digest string `json:"digest"`
	// Signature is the reviewer's, in one of the forms of package seals; empty for a seal without one.
	Signature string `json:"signature,omitempty"`
}

// Question is one question with its key. Its answer_id is "<section>:<number>".
type Question struct {
	Section     int
	SectionName string
	Number      int
	Prompt      string
	// Options maps a letter to its text; nil when the question is not multiple choice.
	Options     map[string]string
	Answer      Answer
	Explanation string
	// Page is 0 when unknown.
	Page      int
	HasVisual bool
	Topic     string
}

// letters returns the letters of the options, in order; nil without options.
func (q *Question) letters() []string {
	if len(q.Options) == 0 {
		return nil
	}
	letters := make([]string, 0, len(q.Options)) // a hot spot of the operator: slices.Sorted grows its list by and by
	for letter := range q.Options {
		letters = append(letters, letter)
	}
	slices.Sort(letters)
	return letters
}

// AnswerKind is the way to compare an answer.
type AnswerKind string

// The kinds of answer.
const (
	AnswerChoice   AnswerKind = "choice"
	AnswerChoices  AnswerKind = "choices"
	AnswerNumeric  AnswerKind = "numeric"
	AnswerText     AnswerKind = "text"
	AnswerAnnulled AnswerKind = "annulled"
	// AnswerUnmarkable is a question that no machine can mark: it counts in neither score nor maximum.
	AnswerUnmarkable AnswerKind = "unmarkable"
)

// Answer is a question's key.
type Answer struct {
	Kind AnswerKind `json:"kind"`
	// Choices holds the right letter (AnswerChoice) or letters, sorted (AnswerChoices).
	Choices []string `json:"choices,omitempty"`
	// Number and Tolerance are set for AnswerNumeric; a Tolerance of 0 is exact.
	Number    float64 `json:"number,omitempty"`
	Tolerance float64 `json:"tolerance,omitempty"`
	Text      string  `json:"text,omitempty"`
}
