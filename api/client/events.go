package client

import (
	"encoding/json"
	"fmt"
	"time"
)

// EventKind names a kind of webhook event (docs/spec.md, part 6). Ignore kinds that you do not know.
type EventKind string

// The kinds, with the type of their data.
const (
	// EventSubmitted has an [AttemptSubmitted].
	EventSubmitted EventKind = "mock_attempt.submitted"
	// EventScored has an [AttemptScored].
	EventScored EventKind = "mock_attempt.scored"
	// EventContentUpdated has a [ContentUpdated].
	EventContentUpdated EventKind = "exam.content_updated"
	// EventTest has a [WebhookTested].
	EventTest EventKind = "webhook.test"
)

// Event is the body of a webhook request.
type Event struct {
	// ID stays the same at each delivery attempt and redelivery.
	ID   string    `json:"id"`
	Kind EventKind `json:"event"`
	// Created is a Unix time in seconds.
	Created int64 `json:"created"`
	// Data depends on Kind.
	Data json.RawMessage `json:"data"`
	// DedupeKey is equal for all deliveries of one event, redeliveries included. Store it, and ignore a repetition.
	DedupeKey string `json:"dedupe_key"`
}

// AttemptSubmitted is the data of [EventSubmitted].
type AttemptSubmitted struct {
	AttemptID         string    `json:"attempt_id"`
	ExamKey           string    `json:"exam_key"`
	PaperID           string    `json:"paper_id"`
	Status            string    `json:"status"`
	SubmittedAt       time.Time `json:"submitted_at"`
	QuestionCount     int       `json:"question_count"`
	AnsweredCount     int       `json:"answered_count"`
	LearnerIDProvided bool      `json:"learner_id_provided"`
}

// AttemptScored is the data of [EventScored].
type AttemptScored struct {
	AttemptID         string  `json:"attempt_id"`
	ExamKey           string  `json:"exam_key"`
	PaperID           string  `json:"paper_id"`
	Score             float64 `json:"score"`
	LearnerIDProvided bool    `json:"learner_id_provided"`
}

// ContentUpdated is the data of [EventContentUpdated].
type ContentUpdated struct {
	ExamKey string `json:"exam_key"`
	// Changes has overview, resources, study_path, papers or withdrawn.
	Changes        []string  `json:"changes"`
	PaperIDs       []string  `json:"paper_ids"`
	ContentVersion int64     `json:"content_version"`
	UpdatedAt      time.Time `json:"updated_at"`
}

// WebhookTested is the data of [EventTest].
type WebhookTested struct {
	EndpointID string `json:"endpoint_id"`
}

// ParseEvent verifies the signature of a webhook request by [Verify] with [Tolerance], and decodes its body. header is the
// value of [SignatureHeader]. An invalid signature is a [*SignatureError].
func ParseEvent(header string, body []byte, secret string, now time.Time) (event Event, err error) {
	if err := Verify(header, body, secret, now, Tolerance); err != nil {
		return event, err
	}
	if err := json.Unmarshal(body, &event); err != nil {
		return event, fmt.Errorf("decode event: %w", err)
	}
	return event, nil
}
