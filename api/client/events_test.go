package client_test

import (
	"encoding/json"
	"errors"
	"testing"

	"examprep.dev/api/client"
	"examprep.dev/server/testkit/check"
)

func TestEventIsParsedIfItsSignatureHolds(t *testing.T) {
	t.Parallel()
	const text = `{"id":"e","event":"mock_attempt.scored","created":1,"data":{"attempt_id":"attempt-1","score":50},"dedupe_key":"attempt-1:mock_attempt.scored"}`
	header := func(body string) string { return "t=1767225600,v1=" + sign(secret, body, signedAt) }
	event, err := client.ParseEvent(header(text), []byte(text), secret, signedAt)
	check.NoError(t, err)
	var scored client.AttemptScored
	check.NoError(t, json.Unmarshal(event.Data, &scored))
	if event.ID != "e" || event.DedupeKey != "attempt-1:mock_attempt.scored" || event.Kind != client.EventScored || scored.AttemptID != "attempt-1" || scored.Score != 50 {
		t.Errorf("got %+v, %+v", event, scored)
	}
	_, err = client.ParseEvent(header(text), []byte(text), "another", signedAt)
	if _, refused := errors.AsType[*client.SignatureError](err); !refused {
		t.Errorf("another secret: %v", err)
	}
	_, err = client.ParseEvent(header("{"), []byte("{"), secret, signedAt)
	if _, refused := errors.AsType[*client.SignatureError](err); err == nil || refused {
		t.Errorf("a malformed body: %v", err)
	}
}
