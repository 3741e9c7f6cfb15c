package webhooks

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
)

// Kind is an event kind (docs/spec.md, part 6).
type Kind string

// The event kinds.
const (
	KindSubmitted      Kind = "mock_attempt.submitted"
	KindScored         Kind = "mock_attempt.scored"
	KindContentUpdated Kind = "exam.content_updated"
	// KindTest is sent only on demand, to one endpoint that asked for it; nobody can subscribe to it.
	KindTest Kind = "webhook.test"
)

// Kinds returns the kinds that an endpoint may subscribe to, in the specification's order.
func Kinds() []Kind { return []Kind{KindSubmitted, KindScored, KindContentUpdated} }

// Event is one thing that happened, ready for webhook_record_event(ID, Kind, Account, Body).
type Event struct {
	// ID is a UUIDv7; receivers see it as the body's id.
	ID   uuid.UUID
	Kind Kind
	// Account is whose event it is; invalid: of no account, every subscriber hears of it.
	Account uuid.NullUUID
	// Body is the exact JSON that is signed and sent, the same bytes at each try.
	Body []byte
}

// AttemptSubmitted is the data of mock_attempt.submitted.
type AttemptSubmitted struct {
	AttemptID string `json:"attempt_id"`
	ExamKey   string `json:"exam_key"`
	PaperID   string `json:"paper_id"`
	// Status is the attempt's state after the submission: submitted or expired.
	Status            string    `json:"status"`
	SubmittedAt       time.Time `json:"submitted_at"`
	QuestionCount     int       `json:"question_count"`
	AnsweredCount     int       `json:"answered_count"`
	LearnerIDProvided bool      `json:"learner_id_provided"`
}

// AttemptScored is the data of mock_attempt.scored (docs/spec.md, part 6).
type AttemptScored struct {
	AttemptID string `json:"attempt_id"`
	ExamKey   string `json:"exam_key"`
	PaperID   string `json:"paper_id"`
	// Score is the percentage, 0 to 100, two decimals.
	Score             float64 `json:"score"`
	LearnerIDProvided bool    `json:"learner_id_provided"`
}

// ContentUpdated is the data of exam.content_updated.
type ContentUpdated struct {
	ExamKey string `json:"exam_key"`
	// Changes names what was refreshed: overview, resources, study_path, papers; or withdrawn, when it is served no more.
	Changes []string `json:"changes"`
	// PaperIDs are the papers that were added, changed or removed.
	PaperIDs []string `json:"paper_ids"`
	// ContentVersion is the exam's revision number.
	ContentVersion int64     `json:"content_version"`
	UpdatedAt      time.Time `json:"updated_at"`
}

// TestSent is the data of webhook.test.
type TestSent struct {
	EndpointID uuid.UUID `json:"endpoint_id"`
}

// NewEvent builds an event with a fresh UUIDv7. created is rounded down to the second, as the specification's Unix time
// asks. data is one of the structs of this file; anything that encoding/json refuses is an error.
func NewEvent(kind Kind, account uuid.NullUUID, created time.Time, data any) (Event, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return Event{}, fmt.Errorf("new event id: %w", err)
	}
	var body bytes.Buffer
	encoder := json.NewEncoder(&body)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(struct {
		Event   Kind      `json:"event"`
		Created int64     `json:"created"`
		Data    any       `json:"data"`
		ID      uuid.UUID `json:"id"`
	}{kind, created.Unix(), data, id}); err != nil {
		return Event{}, fmt.Errorf("encode %s event: %w", kind, err)
	}
	return Event{ID: id, Kind: kind, Account: account, Body: bytes.TrimSuffix(body.Bytes(), []byte("\n"))}, nil
}
