package delivery

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
	"examprep.dev/server/webhooks"
)

// A stranger is a receiver whose author has read docs/spec.md, part 6, and nothing else. It uses nothing of
// this module.
type stranger struct {
	mu sync.Mutex
	// secret is the one that it was shown at registration, or that the test has told it since.
	secret string
	// busy is how many deliveries of each id it fails first.
	busy     int
	tries    map[string]int
	accepted map[string]string // event by id
	seen     map[string]bool   // data.attempt_id and event, on which it de-duplicates
	refused  []string
}

func newStranger(busy int) *stranger {
	return &stranger{busy: busy, tries: map[string]int{}, accepted: map[string]string{}, seen: map[string]bool{}}
}

func (s *stranger) answer(w http.ResponseWriter, r *http.Request, raw []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	event, err := s.read(r, raw)
	if err != nil {
		s.refused = append(s.refused, err.Error())
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	s.tries[event.id]++
	if s.tries[event.id] <= s.busy {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	if event.attempt != "" {
		s.seen[event.attempt+event.kind] = true
	}
	s.accepted[event.id] = event.kind
	w.WriteHeader(http.StatusAccepted)
}

type strangersEvent struct{ id, kind, attempt string }

// read follows the specification's sections "Payload" and "Signature".
func (s *stranger) read(r *http.Request, raw []byte) (e strangersEvent, err error) {
	if r.Method != http.MethodPost || r.TLS == nil {
		return e, fmt.Errorf("%s, TLS %v", r.Method, r.TLS != nil)
	}
	if kind, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";"); kind != "application/json" {
		return e, fmt.Errorf("a body of %s", kind)
	}
	if err := s.verify(r.Header.Values("Service-Signature"), raw); err != nil {
		return e, err
	}
	var body struct {
		Event   *string        `json:"event"`
		Created *int64         `json:"created"`
		Data    map[string]any `json:"data"`
	}
	if err := json.Unmarshal(raw, &body); err != nil {
		return e, fmt.Errorf("body: %w", err)
	}
	if body.Event == nil || body.Created == nil || body.Data == nil {
		return e, fmt.Errorf("a field of %s is missing", raw)
	}
	e.kind = *body.Event
	e.attempt, _ = body.Data["attempt_id"].(string)
	if e.kind == "mock_attempt.scored" {
		for field, example := range map[string]any{"attempt_id": "", "exam_key": "", "paper_id": "", "score": 0.5, "learner_id_provided": false} {
			if fmt.Sprintf("%T", body.Data[field]) != fmt.Sprintf("%T", example) {
				return e, fmt.Errorf("data.%s is %v", field, body.Data[field])
			}
		}
	}
	e.id = fmt.Sprint(body.Data, *body.Created, e.kind) // the specification names no id
	return e, nil
}

func (s *stranger) verify(headers []string, raw []byte) error {
	if len(headers) != 1 {
		return fmt.Errorf("%d signature headers", len(headers))
	}
	var stamp string
	var signatures []string
	for part := range strings.SplitSeq(headers[0], ",") {
		switch name, value, _ := strings.Cut(part, "="); name {
		case "t":
			stamp = value
		case "v1":
			signatures = append(signatures, value)
		}
	}
	mac := hmac.New(sha256.New, []byte(s.secret))
	_, _ = io.WriteString(mac, stamp+".")
	_, _ = mac.Write(raw)
	expected := hex.EncodeToString(mac.Sum(nil))
	found := false
	for _, signature := range signatures {
		found = hmac.Equal([]byte(signature), []byte(expected)) || found
	}
	if !found {
		return fmt.Errorf("none of %d signatures fits", len(signatures))
	}
	seconds, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil {
		return fmt.Errorf("timestamp: %w", err)
	}
	if age := time.Since(time.Unix(seconds, 0)).Abs(); age > 300*time.Second {
		return fmt.Errorf("signed %s from now", age)
	}
	return nil
}

func (s *stranger) knows(secret string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.secret = secret
}

// occur records one event of each kind of an account.
func (b *bench) occur(t *testing.T, account uuid.UUID, n int) {
	t.Helper()
	attempt, whose := fmt.Sprintf("attempt-%d", n), uuid.NullUUID{UUID: account, Valid: true}
	for kind, data := range map[webhooks.Kind]any{
		webhooks.KindSubmitted: webhooks.AttemptSubmitted{
			AttemptID: attempt, ExamKey: "exam", PaperID: "paper-1", Status: "submitted", SubmittedAt: time.Now(), QuestionCount: 9,
		},
		webhooks.KindScored:         webhooks.AttemptScored{AttemptID: attempt, ExamKey: "exam", PaperID: "paper-1", Score: float64(n), LearnerIDProvided: true},
		webhooks.KindContentUpdated: webhooks.ContentUpdated{ExamKey: "exam é <&> 试", Changes: []string{"papers"}, PaperIDs: []string{}, ContentVersion: int64(n)},
	} {
		event, err := webhooks.NewEvent(kind, whose, time.Now(), data)
		check.NoError(t, err)
		b.record(t, event)
	}
}

func TestAReceiverWrittenFromTheSpecificationAloneAcceptsEveryDelivery(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const busy = 2
	s := newStranger(busy)
	r := testkit.StartReceiver(t, nil)
	r.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		raw, err := io.ReadAll(request.Body)
		if err != nil {
			t.Error(err)
		}
		s.answer(w, request, raw)
	})
	account := b.account(t)
	endpoint, secret, err := b.endpoints.Register(t.Context(), webhooks.Registration{AccountID: account, URL: r.URL, Events: webhooks.Kinds()})
	check.NoError(t, err)
	s.knows(secret)
	testkit.Run(t, b.worker(t, r).Run)
	const each, kinds = 10, 3
	events := 0
	arrive := func() {
		t.Helper()
		for range each {
			b.occur(t, account, events)
			events += kinds
		}
		b.until(t, events, inState, "delivered")
	}
	arrive()
	next, err := b.endpoints.RotateSecret(t.Context(), account, endpoint.ID)
	check.NoError(t, err)
	arrive() // it still knows the old secret
	s.knows(next)
	arrive()
	if _, err := b.deliveries.Test(t.Context(), account, endpoint.ID, time.Now()); err != nil {
		t.Fatal(err)
	}
	b.until(t, events+1, inState, "delivered")
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.refused) > 0 {
		t.Errorf("%d refused, the first because of %s", len(s.refused), s.refused[0])
	}
	if len(s.accepted) != events+1 || len(s.seen) != events/kinds*2 {
		t.Errorf("%d accepted, of which %d of attempts; want %d, %d", len(s.accepted), len(s.seen), events+1, events/kinds*2)
	}
	for id, tries := range s.tries {
		if tries <= busy { // a repetition more is allowed
			t.Errorf("%s was tried %d times, want %d", id, tries, busy+1)
		}
	}
}
