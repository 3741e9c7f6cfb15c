package seals

import (
	"encoding/json"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/gowebpki/jcs"
)

// Namespace is what ssh-keygen -Y sign must be given by -n.
const Namespace = "examprep.dev"

// canonicalStatement names the form of the message; another form takes another name.
const canonicalStatement = "examprep.dev/seal/v1"

// Statement is what a verifier signs.
type Statement struct {
	ExamKey string
	PaperID string
	// Digest is that of the paper's canonical form, as verification.digest carries it.
	Digest string
	// By and At are verification.by and verification.at as they are written.
	By string
	At string
}

// Message returns the exact bytes to sign, the newline at their end included. It fails on strings that have no RFC 8785
// form, such as those that are not UTF-8.
func (s Statement) Message() ([]byte, error) {
	for _, text := range []string{s.ExamKey, s.PaperID, s.Digest, s.By, s.At} {
		if !utf8.ValidString(text) { // JSON would replace what is not, and two statements would share a message
			return nil, fmt.Errorf("message of a seal: not valid UTF-8: %.40q", text)
		}
	}
	raw, err := json.Marshal(struct {
		At        string `json:"at"`
		By        string `json:"by"`
		Canonical string `json:"canonical"`
		Digest    string `json:"digest"`
		ExamKey   string `json:"exam_key"`
		PaperID   string `json:"paper_id"`
	}{s.At, s.By, canonicalStatement, s.Digest, s.ExamKey, s.PaperID})
	if err != nil {
		return nil, fmt.Errorf("message of a seal: %w", err)
	}
	form, err := jcs.Transform(raw)
	if err != nil {
		return nil, fmt.Errorf("message of a seal: %w", err)
	}
	return append(form, '\n'), nil
}

// time reads At; a date is its beginning in UTC.
func (s Statement) time() (time.Time, error) {
	if at, err := time.Parse(time.RFC3339, s.At); err == nil {
		return at, nil
	}
	return time.Parse(time.DateOnly, s.At)
}
