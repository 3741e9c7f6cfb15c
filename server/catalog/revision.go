package catalog

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
)

// Digest is a SHA-256.
type Digest [32]byte

// String prints "sha256:" and 64 hex digits, as verification.digest carries it.
func (d Digest) String() string { return "sha256:" + hex.EncodeToString(d[:]) }

// MarshalText writes what String prints.
func (d Digest) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads what String prints.
func (d *Digest) UnmarshalText(text []byte) error {
	parsed, err := ParseDigest(string(text))
	if err == nil {
		*d = parsed
	}
	return err
}

// ParseDigest reads what Digest.String prints: "sha256:" and 64 lower-case hex digits.
func ParseDigest(s string) (Digest, error) {
	var d Digest
	digits, ok := strings.CutPrefix(s, "sha256:")
	if ok && len(digits) == hex.EncodedLen(len(d)) && strings.ToLower(digits) == digits {
		if _, err := hex.Decode(d[:], []byte(digits)); err == nil {
			return d, nil
		}
	}
	return Digest{}, fmt.Errorf("%.80q is not sha256: and 64 lower-case hex digits", s)
}

// AnswerID is the stable key of a question within its paper.
func AnswerID(section, number int) string { return strconv.Itoa(section) + ":" + strconv.Itoa(number) }

// AnswerKey is the key that a paper's revision is scored by. It is stored and read apart from the questions, and requests
// are never rendered from it.
type AnswerKey struct {
	ExamKey string `json:"-"`
	Digest  Digest `json:"-"`
	// Marking is what holds: the paper's, else the exam's (scoring.marks), else 1, 0 and 0.
	Marking Marking       `json:"marking"`
	Scoring Scoring       `json:"scoring"`
	Keys    []QuestionKey `json:"questions"`
}

// QuestionKey is one question's key, in paper order.
type QuestionKey struct {
	Section     int    `json:"section"`
	SectionName string `json:"section_name,omitempty"`
	Number      int    `json:"number"`
	// Letters are the letters of the options, sorted; nil without options.
	Letters     []string `json:"letters,omitempty"`
	Answer      Answer   `json:"answer"`
	Explanation string   `json:"explanation,omitempty"`
	// Topic stands here and not with the question: it may give the answer away.
	Topic string `json:"topic,omitempty"`
}

// Scoring holds the keys of an exam's free-form scoring object that have a meaning here (docs/spec.md, part 2).
type Scoring struct {
	Method        string       `json:"method,omitempty"`
	Marks         *Marking     `json:"marks,omitempty"`
	PartialCredit bool         `json:"partial_credit,omitempty"`
	MaxScore      *float64     `json:"max_score,omitempty"`
	PassMark      *float64     `json:"pass_mark,omitempty"`
	Scale         *Scale       `json:"scale,omitempty"`
	Conversion    []Conversion `json:"conversion,omitempty"`
	Bands         []Band       `json:"bands,omitempty"`
	SourceURL     string       `json:"source_url,omitempty"`
}

// Scale is the range and step of a scaled score.
type Scale struct {
	Min  float64 `json:"min"`
	Max  float64 `json:"max"`
	Step float64 `json:"step,omitempty"`
}

// Conversion is one row of an official raw-to-scaled table.
type Conversion struct {
	Raw    float64 `json:"raw"`
	Scaled float64 `json:"scaled"`
}

// Band is a labelled range of the score.
type Band struct {
	Label      string  `json:"label"`
	Min        float64 `json:"min"`
	Max        float64 `json:"max"`
	Descriptor string  `json:"descriptor,omitempty"`
}
