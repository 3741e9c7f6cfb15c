package httpapi_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"

	"examprep.dev/api/openapi/openapitest"
	"examprep.dev/server/accounts"
	"examprep.dev/server/catalog"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/apitest"
	"examprep.dev/server/testkit/check"
	"examprep.dev/server/webhooks"
)

type request struct {
	method, path, body string
	header             map[string]string
}

func (r request) with(name, value string) request {
	r.header = maps.Clone(r.header)
	r.header[name] = value
	return r
}

// unknownNames are path parameters that name nothing.
var unknownNames = strings.NewReplacer("{exam_key}", "no-such-exam", "{key_prefix}", "service_00000000",
	"{id}", unknownID, "{delivery_id}", unknownID, "{member_id}", unknownID, "{invitation_id}", unknownID)

const unknownID = "00000000-0000-7000-8000-000000000000"

// bodies make, for each operation that reads one, a body that it accepts.
var bodies = map[string]func(s *stage) string{
	"openMockPaper":       func(*stage) string { return `{"paper_id":"` + testPaper + `"}` },
	"getMockQuestionPage": func(*stage) string { return `{"paper_id":"` + testPaper + `"}` },
	"submitMockAttempt":   func(s *stage) string { return `{"attempt_id":"` + s.open() + `","answers":{"1:1":"B"}}` },
	"createKey":           func(*stage) string { return `{"name":"ci","expires_at":"2999-01-01T00:00:00Z"}` },
	"rotateKey":           func(*stage) string { return `{"overlap_seconds":60}` },
	"createWebhook":       func(*stage) string { return `{"url":"https://example.com/","events":["mock_attempt.scored"]}` },
	"updateWebhook":       func(*stage) string { return `{"description":"changed"}` },
	"recoverWebhook":      func(*stage) string { return bodyFor(http.MethodPost) },
	"chooseAccount":       func(s *stage) string { return `{"account_id":"` + s.accountOf(s.cookie).String() + `"}` },
	"inviteMember":        func(*stage) string { return `{"email":"` + uuid.NewString() + `@example.org","role":"viewer"}` },
	"updateMember":        func(*stage) string { return `{"role":"viewer"}` },
}

func (s *stage) request(o openapitest.Operation) request {
	s.t.Helper()
	r := request{method: o.Method, path: o.Path, header: map[string]string{}}
	if strings.HasPrefix(o.Path, "/v1/developer/") {
		r.header["Authorization"], r.header["Cookie"] = "", s.cookie
	}
	switch o.ID {
	case "completeSignIn":
		return s.beginSignIn("grace")
	case "deleteSession", "deleteSessions":
		r.header["Cookie"] = s.signIn("leaver")
	case "acceptInvitation", "declineInvitation":
		r.header["Cookie"] = s.signIn("guest") // whose session moves
	case "updateWebhook":
		if s.changing == "" {
			s.changing = s.newWebhook(s.cookie)
		}
		r.path = strings.ReplaceAll(r.path, "{id}", s.changing)
	case "deleteWebhook":
		r.path = strings.ReplaceAll(r.path, "{id}", s.newWebhook(s.cookie))
	}
	r.path = s.fill(r.path)
	if body, has := bodies[o.ID]; has {
		r.body, r.header["Content-Type"] = body(s), "application/json"
	}
	return r
}

func (s *stage) fill(path string) string {
	s.t.Helper()
	for parameter, name := range map[string]func() string{
		"{exam_key}":      func() string { return testExam },
		"{key_prefix}":    func() string { return s.newKeyPrefix(`{"name":"ci"}`) },
		"{delivery_id}":   s.newDelivery,
		"{id}":            func() string { return s.hook },
		"{member_id}":     s.newMember,
		"{invitation_id}": func() string { return s.newInvitation("guest@example.org") },
	} {
		if strings.Contains(path, parameter) {
			path = strings.ReplaceAll(path, parameter, name())
		}
	}
	return path
}

// newMember adds a member to ada's account.
func (s *stage) newMember() string {
	s.t.Helper()
	name := s.developer(s.cookie, http.MethodGet, sessionPath, "", "account")
	person := accounts.Person{Issuer: s.provider.Issuer(), Subject: uuid.NewString()}
	member, err := accounts.NewAdministration(s.Pool, time.Now).Add(s.t.Context(), name, person, accounts.Developer)
	check.NoError(s.t, err)
	return member.ID.String()
}

// newInvitation invites an address to an account of its own.
func (s *stage) newInvitation(email string) string {
	s.t.Helper()
	admin, name := accounts.NewAdministration(s.Pool, time.Now), uuid.NewString()
	_, err := admin.Ensure(s.t.Context(), name)
	check.NoError(s.t, err)
	invited, err := admin.Invite(s.t.Context(), name, email, accounts.Owner)
	check.NoError(s.t, err)
	return invited.ID.String()
}

// developer sends a request of the person with that cookie, which must succeed, and returns one field of the answer.
func (s *stage) developer(cookie, method, path, body, field string) string {
	s.t.Helper()
	got := s.call(method, path, body, map[string]string{"Authorization": "", "Cookie": cookie, "Content-Type": "application/json"})
	if got.status >= http.StatusBadRequest {
		s.t.Fatalf("%s %s: %d %s", method, path, got.status, got.body)
	}
	if field == "" {
		return ""
	}
	value, _ := got.document(s.t)[field].(string)
	return value
}

func (s *stage) newKeyPrefix(body string) string {
	s.t.Helper()
	return s.developer(s.cookie, http.MethodPost, "/v1/developer/keys", body, "key_prefix")
}

func (s *stage) newWebhook(cookie string) string {
	s.t.Helper()
	return s.developer(cookie, http.MethodPost, "/v1/developer/webhooks", `{"url":"https://example.com/","events":["mock_attempt.scored"]}`, "id")
}

func (s *stage) newDelivery() string {
	s.t.Helper()
	return s.developer(s.cookie, http.MethodPost, "/v1/developer/webhooks/"+s.hook+"/test", "", "delivery_id")
}

func (s *stage) accountOf(cookie string) uuid.UUID {
	s.t.Helper()
	id, err := uuid.Parse(s.developer(cookie, http.MethodGet, "/v1/developer/session", "", "account_id"))
	check.NoError(s.t, err)
	return id
}

// newManagedWebhook is one of ada's that a resource of the cluster declares.
func (s *stage) newManagedWebhook() string {
	s.t.Helper()
	endpoint, err := webhooks.NewManaged(s.Pool, apitest.Keyring(s.t), webhooks.NewAddressPolicy(nil)).Apply(s.t.Context(), webhooks.ManagedEndpoint{
		Owner: "test/exams/" + uuid.NewString(), URL: "https://example.com/", Events: []webhooks.Kind{webhooks.KindScored},
		Account: uuid.NullUUID{UUID: s.accountOf(s.cookie), Valid: true}, Secret: strings.Repeat("s", 32),
	})
	check.NoError(s.t, err)
	return endpoint.ID.String()
}

func (s *stage) insertKeys(cookie string, n int) {
	s.t.Helper()
	testkit.Exec(s.t, s.Pool, `INSERT INTO api_keys (id, account_id, family_id, prefix, hash)
		SELECT id, $1, id, 'service_' || lpad(to_hex(n), 8, '0'), sha256(id::text::bytea)
		FROM (SELECT n, gen_random_uuid() AS id FROM generate_series(1, $2::int) AS n) AS new`, s.accountOf(cookie), n)
}

// exemplaryExams have every field that the contract knows of an exam.
func exemplaryExams() []catalog.Exam {
	exam := sampleExam(testExam)
	exam.Sections[0].QuestionTypes = []string{"single choice"}
	exam.Resources.PastQuestionsSources = exam.Resources.OfficialSites
	exam.Scoring = json.RawMessage(`{
		"method": "sum of marks", "marks": {"correct": 3, "incorrect": -1, "unanswered": 0}, "partial_credit": true,
		"max_score": 12, "pass_mark": 3, "scale": {"min": 0, "max": 10, "step": 0.5},
		"conversion": [{"raw": -100, "scaled": 0}, {"raw": 3, "scaled": 10}],
		"bands": [{"label": "All", "min": 0, "max": 10, "descriptor": "Everyone."}],
		"source_url": "https://example.org/scoring", "publishers_own": [1]
	}`)
	exam.StudyPath.Steps = []json.RawMessage{[]byte(`{
		"week": 1, "title": "Begin", "section": "All", "topics": ["counting"], "activities": ["count"], "hours": 7.5,
		"paper_ids": ["` + testPaper + `"], "milestone": "One can count.", "publishers_own": {}
	}`)}
	for number := 10; number < 20; number++ { // more than one page shows
		exam.Papers[0].Questions = append(exam.Papers[0].Questions, catalog.Question{
			Section: 2, SectionName: "Second", Number: number, Prompt: "Again?", Answer: catalog.Answer{Kind: catalog.AnswerText, Text: "yes"},
		})
	}
	return []catalog.Exam{exam, sampleExam(otherExam)}
}
