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
	// KindTest is sent on request, to one endpoint. Endpoints cannot subscribe to it.
	KindTest Kind = "webhook.test"
)

// Kinds returns the kinds that an endpoint may subscribe to, in the specification's order.
func Kinds() []Kind { return []Kind{KindSubmitted, KindScored, KindContentUpdated} }

// Event has the arguments of the SQL function webhook_record_event: ID, Kind, Account and Body.
type Event struct {
	// ID is a UUIDv7; receivers see it as the body's id.
	ID   uuid.UUID
	Kind Kind
	// Account owns the event; if it is invalid, all accounts get the event.
	Account uuid.NullUUID
	// Body is the exact JSON that is signed and sent, the same bytes at each attempt.
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
	// Changes has the documents that changed: overview, resources, study_path, papers; or withdrawn, if the exam is no longer served.
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

// dedupeKey returns the text by which receivers recognise a repetition: <attempt_id>:<event> for events of an attempt, which
// happen once in its life, and the event's id for others.
func dedupeKey(kind Kind, id uuid.UUID, data any) string {
	switch data := data.(type) {
	case AttemptSubmitted:
		return data.AttemptID + ":" + string(kind)
	case AttemptScored:
		return data.AttemptID + ":" + string(kind)
	default:
		return id.String()
	}
}

// NewEvent returns an event with a new UUIDv7. created is rounded down to the second, because the specification has Unix time.
// data is one of the structs of this file. An error of encoding/json is returned.
func NewEvent(kind Kind, account uuid.NullUUID, created time.Time, data any) (Event, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return Event{}, fmt.Errorf("new event id: %w", err)
	}
	return eventOf(id, kind, account, created, data)
}

// eventOf returns an event with an id.
func eventOf(id uuid.UUID, kind Kind, account uuid.NullUUID, created time.Time, data any) (Event, error) {
	var body bytes.Buffer
	encoder := json.NewEncoder(&body)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(struct {
		Event     Kind      `json:"event"`
		Created   int64     `json:"created"`
		Data      any       `json:"data"`
		ID        uuid.UUID `json:"id"`
		DedupeKey string    `json:"dedupe_key"`
	}{kind, created.Unix(), data, id, dedupeKey(kind, id, data)}); err != nil {
		return Event{}, fmt.Errorf("encode %s event: %w", kind, err)
	}
	return Event{ID: id, Kind: kind, Account: account, Body: bytes.TrimSuffix(body.Bytes(), []byte("\n"))}, nil
}
