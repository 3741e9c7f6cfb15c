package httpapi

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"examprep.dev/server/accounts"
	"examprep.dev/server/attempts"
	"examprep.dev/server/audit"
	"examprep.dev/server/catalog"
	"examprep.dev/server/catalog/read"
	"examprep.dev/server/httpapi/codec"
	"examprep.dev/server/httpapi/developer"
	"examprep.dev/server/keys"
	"examprep.dev/server/sessions"
	"examprep.dev/server/usage"
	"examprep.dev/server/webhooks"
)

// A standIn takes the place of all parts behind the handlers. It accepts each valid request that a handler passes on, and records
// each invalid one. So the decoding of every operation is tested as its handler uses it.
type standIn struct {
	Catalog
	complaint atomic.Pointer[string]
}

// newStandInServer is a server of every route, on a stand-in.
func newStandInServer(t testing.TB) (*Server, *standIn) {
	t.Helper()
	s := new(standIn)
	return New(Config{}, Deps{
		Gate: openGate{}, Catalog: s, Attempts: standInAttempts{s}, Logger: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry(),
		Developer: &developer.Deps{
			SignIn: standInSignIn{s}, Sessions: standInSessions{}, Accounts: standInAccounts{s}, Audit: standInAudit{s}, Keys: standInKeys{standIn: s},
			Usage: standInUsage{standInKeys{standIn: s}}, Webhooks: standInWebhooks{standIn: s}, Deliveries: standInDeliveries{standIn: s},
			Environment: "sandbox", SessionLifetime: time.Hour, Now: time.Now,
		},
	}), s
}

// complainf records that a handler passed on an invalid request.
func (s *standIn) complainf(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	s.complaint.Store(&text)
}

// text complains of a text that is not of least to most characters, or that PostgreSQL would not keep.
func (s *standIn) text(name, value string, least, most int) {
	if length := utf8.RuneCountInString(value); length < least || length > most || !utf8.ValidString(value) || strings.IndexByte(value, 0) >= 0 {
		s.complainf("%s is %q", name, value)
	}
}

// opaque complains of a text of more than most characters.
func (s *standIn) opaque(name, value string, most int) {
	if utf8.RuneCountInString(value) > most || !utf8.ValidString(value) {
		s.complainf("%s is %q", name, value)
	}
}

func (s *standIn) number(name string, value, least, most int) {
	if value < least || value > most {
		s.complainf("%s is %d", name, value)
	}
}

var standInDocument = read.Document{JSON: []byte(`{"exam_key":"x","padding":"` + strings.Repeat("patience ", 300) + `"}`), ETag: `"0123456789abcdef"`}

func (s *standIn) Ready() bool                             { return true }
func (s *standIn) OnChange(changed func([]read.ExamEntry)) { changed(nil) }

func (s *standIn) find(examKey string) (read.Document, error) {
	s.text("exam_key", examKey, 0, 1<<20)
	if examKey == "missing" {
		return read.Document{}, &catalog.NotFoundError{What: "exam", Name: examKey}
	}
	return standInDocument, nil
}
func (s *standIn) Overview(examKey string) (read.Document, error)  { return s.find(examKey) }
func (s *standIn) Resources(examKey string) (read.Document, error) { return s.find(examKey) }
func (s *standIn) StudyPath(examKey string) (read.Document, error) { return s.find(examKey) }
func (s *standIn) Papers(examKey string) (read.Document, error)    { return s.find(examKey) }

type standInAttempts struct{ *standIn }

func (s standInAttempts) page(req attempts.PageRequest) {
	s.text("exam_key", req.ExamKey, 0, 1<<20)
	s.text("paper_id", req.PaperID, minID, maxID)
	s.opaque("learner_id", req.LearnerID, maxLearnerID)
	s.number("question_offset", req.Offset, 0, codec.NoMax)
	s.number("question_limit", req.Limit, 1, maxQuestionLimit)
}

func (s standInAttempts) Open(_ context.Context, _ keys.Identity, req attempts.OpenRequest) (attempts.Opened, error) {
	s.page(attempts.PageRequest{ExamKey: req.ExamKey, PaperID: req.PaperID, Offset: req.Offset, Limit: req.Limit, LearnerID: req.LearnerID})
	return attempts.Opened{PaperID: req.PaperID, State: attempts.StateInProgress}, nil
}

func (s standInAttempts) Page(_ context.Context, _ keys.Identity, req attempts.PageRequest) (attempts.Page, error) {
	s.page(req)
	if req.AttemptID != "" {
		s.text("attempt_id", req.AttemptID, minID, maxID)
	}
	return attempts.Page{}, nil
}

func (s standInAttempts) Submit(_ context.Context, _ keys.Identity, req attempts.SubmitRequest) (attempts.Result, error) {
	s.text("attempt_id", req.AttemptID, minID, maxID)
	s.opaque("learner_id", req.LearnerID, maxLearnerID)
	given := make(map[string]bool)
	for _, answer := range req.Answers {
		s.text("an answer's key", answer.Key, 0, 1<<20)
		s.text("an answer", answer.Value, 0, 1<<20)
		if given[answer.Key] {
			s.complainf("the answer %q is given twice", answer.Key)
		}
		given[answer.Key] = true
	}
	switch req.Status {
	case attempts.StateSubmitted, attempts.StateExpired, attempts.StateAbandoned:
	default:
		s.complainf("status is %q", req.Status)
	}
	return attempts.Result{AttemptID: req.AttemptID}, nil
}

func (s standInAttempts) History(_ context.Context, _ keys.Identity, req attempts.HistoryRequest) (attempts.History, error) {
	s.opaque("learner_id", req.LearnerID, maxLearnerID)
	s.number("limit", req.Limit, 1, maxHistoryLimit)
	s.number("offset", req.Offset, 0, codec.NoMax)
	return attempts.History{Attempts: []attempts.Summary{}}, nil
}

type standInSignIn struct{ *standIn }

func (standInSignIn) Begin(context.Context, string) (string, string, error) {
	return "https://provider.example/", "token", nil
}

func (standInSignIn) Complete(context.Context, string, sessions.Callback) (sessions.SignedIn, error) {
	return sessions.SignedIn{Token: "token"}, nil
}

func (standInSignIn) Choose(context.Context, string, sessions.Session, uuid.UUID) (sessions.Session, error) {
	return sessions.Session{}, nil
}

func (standInSignIn) Accept(context.Context, string, sessions.Session, uuid.UUID) (sessions.Session, error) {
	return sessions.Session{}, nil
}

func (standInSignIn) CreatePersonal(context.Context, string, sessions.Session) (sessions.Session, error) {
	return sessions.Session{}, nil
}

func (standInSignIn) SignOut(context.Context, string, sessions.Session) error   { return nil }
func (standInSignIn) SignOutEverywhere(context.Context, sessions.Session) error { return nil }

// standInSessions takes anyone for signed in.
type standInSessions struct{ developer.Sessions }

func (standInSessions) Authentic([]byte) ([]byte, bool) { return nil, true }

func (standInSessions) Lookup(context.Context, string) (sessions.Session, error) {
	return sessions.Session{AccountID: uuid.Max, Account: "acme", Role: accounts.Owner}, nil
}
func (standInSessions) End(context.Context, string) error { return nil }

// List returns no session.
func (standInSessions) List(context.Context, string, sessions.Session) ([]sessions.Listed, error) {
	return nil, nil
}

// standInAccounts takes every person for an owner.
type standInAccounts struct{ *standIn }

func (standInAccounts) Memberships(context.Context, accounts.Person) ([]accounts.Membership, error) {
	return nil, nil
}

func (standInAccounts) Offers(context.Context, accounts.Person) ([]accounts.Offer, error) {
	return nil, nil
}

func (standInAccounts) Decline(context.Context, accounts.Person, uuid.UUID) error { return nil }

func (standInAccounts) People(context.Context, uuid.UUID) (*accounts.People, error) {
	return new(accounts.People), nil
}

func (s standInAccounts) Invite(
	_ context.Context, _ uuid.UUID, _ accounts.Person, email string, role accounts.Role,
) (accounts.Invitation, error) {
	s.text("email", email, 1, 254)
	s.role(role)
	return accounts.Invitation{Email: "a@example.org", Role: role, CreatedBy: "x"}, nil
}

func (s standInAccounts) SetRole(
	_ context.Context, _ uuid.UUID, _ accounts.Person, _ uuid.UUID, role accounts.Role,
) (accounts.Member, error) {
	s.role(role)
	return accounts.Member{Role: role, CreatedBy: "x"}, nil
}

func (standInAccounts) Remove(context.Context, uuid.UUID, accounts.Person, uuid.UUID) error {
	return nil
}

func (s standInAccounts) role(role accounts.Role) {
	if role != accounts.Owner && role != accounts.Developer && role != accounts.Viewer {
		s.complainf("role is %q", role)
	}
}

type standInAudit struct{ *standIn }

func (s standInAudit) Page(_ context.Context, _ uuid.UUID, action audit.Action, _ uuid.NullUUID, limit int) ([]audit.Shown, bool, error) {
	if action != "" {
		s.text("action", string(action), 1, 64)
	}
	s.number("limit", limit, 1, 100)
	return nil, false, nil
}

type standInKeys struct {
	*standIn
	developer.Keys
}

func (s standInKeys) Create(_ context.Context, _ uuid.UUID, want keys.NewKey) (keys.CreatedKey, error) {
	s.text("name", want.Name, 1, 200)
	if want.InheritFrom != "" {
		s.text("inherit_from", want.InheritFrom, 1, keys.PrefixLength)
	}
	return keys.CreatedKey{Name: want.Name}, nil
}

func (s standInKeys) Rotate(_ context.Context, _ uuid.UUID, prefix string, overlap time.Duration) (keys.CreatedKey, error) {
	s.prefix(prefix)
	s.number("overlap_seconds", int(overlap/time.Second), 0, 24*60*60)
	return keys.CreatedKey{}, nil
}

func (s standInKeys) Revoke(_ context.Context, _ uuid.UUID, prefix string) error {
	s.prefix(prefix)
	return nil
}

func (s standInKeys) Page(_ context.Context, _ uuid.UUID, before string, limit int) (keys.Page, error) {
	if before != "" {
		s.prefix(before)
	}
	s.number("limit", limit, 1, keys.MaxPage)
	return keys.Page{}, nil
}

func (s standInKeys) Overview(context.Context, uuid.UUID) (keys.Overview, error) {
	return keys.Overview{}, nil
}

type standInUsage struct{ standInKeys }

func (s standInUsage) Days(_ context.Context, _ uuid.UUID, _ time.Time, n int) ([]usage.Day, error) {
	return make([]usage.Day, n), nil
}

func (s standInUsage) Daily(_ context.Context, query usage.Query) ([]usage.Daily, error) {
	if query.KeyPrefix != "" {
		s.prefix(query.KeyPrefix)
	}
	s.number("the span in days", int(query.To.Sub(query.From)/(24*time.Hour)), 0, 365)
	return nil, nil
}

func (s standInKeys) prefix(prefix string) {
	if !keys.IsPrefix(prefix) {
		s.complainf("the prefix is %q", prefix)
	}
}

type standInWebhooks struct {
	*standIn
	developer.Webhooks
}

func (s standInWebhooks) Register(_ context.Context, r webhooks.Registration) (webhooks.Endpoint, string, error) {
	s.endpoint(&r.URL, &r.Description, r.Events)
	return webhooks.Endpoint{URL: r.URL, Events: r.Events, Description: r.Description}, "secret", nil
}

func (s standInWebhooks) Update(_ context.Context, _, id uuid.UUID, change webhooks.Change) (webhooks.Endpoint, error) {
	s.endpoint(change.URL, change.Description, change.Events)
	return webhooks.Endpoint{ID: id}, nil
}

func (s standInWebhooks) endpoint(url, description *string, events []webhooks.Kind) {
	if url != nil {
		s.text("url", *url, 1, 2048)
	}
	if description != nil {
		s.text("description", *description, 0, 500)
	}
	s.number("events", len(events), 0, 3)
	for _, event := range events {
		s.text("an event", string(event), 0, 1<<20)
	}
}

func (s standInWebhooks) List(context.Context, uuid.UUID) ([]webhooks.EndpointDetail, error) {
	return nil, nil
}

func (s standInWebhooks) Get(_ context.Context, _, id uuid.UUID) (webhooks.EndpointDetail, error) {
	return webhooks.EndpointDetail{Endpoint: webhooks.Endpoint{ID: id}}, nil
}

func (s standInWebhooks) Overview(context.Context, uuid.UUID) (webhooks.Overview, error) {
	return webhooks.Overview{}, nil
}
func (s standInWebhooks) Delete(context.Context, uuid.UUID, uuid.UUID) error { return nil }
func (s standInWebhooks) RotateSecret(context.Context, uuid.UUID, uuid.UUID) (string, error) {
	return "secret", nil
}

type standInDeliveries struct {
	*standIn
	developer.Deliveries
}

func (s standInDeliveries) Test(context.Context, uuid.UUID, uuid.UUID, time.Time) (uuid.UUID, error) {
	return uuid.Nil, nil
}

func (s standInDeliveries) List(_ context.Context, _, _ uuid.UUID, filter webhooks.DeliveryFilter, limit int) (webhooks.DeliveryPage, error) {
	s.number("limit", limit, 1, webhooks.MaxDeliveryPage)
	if filter.State != "" && !slices.Contains(webhooks.States(), filter.State) {
		s.complainf("the state is %q", filter.State)
	}
	if filter.Kind != "" && filter.Kind != webhooks.KindTest && !slices.Contains(webhooks.Kinds(), filter.Kind) {
		s.complainf("the event is %q", filter.Kind)
	}
	return webhooks.DeliveryPage{}, nil
}

func (s standInDeliveries) Get(_ context.Context, _, _, delivery uuid.UUID) (webhooks.DeliveryDetail, error) {
	return webhooks.DeliveryDetail{Delivery: webhooks.Delivery{ID: delivery}}, nil
}

func (s standInDeliveries) Recover(context.Context, uuid.UUID, uuid.UUID, time.Time) (webhooks.Recovery, error) {
	return webhooks.Recovery{}, nil
}

func (s standInDeliveries) Recoverable(context.Context, uuid.UUID, uuid.UUID, time.Time) (webhooks.Recovery, error) {
	return webhooks.Recovery{}, nil
}

func (s standInDeliveries) Redeliver(_ context.Context, _, _, delivery uuid.UUID) (uuid.UUID, error) {
	return delivery, nil
}
