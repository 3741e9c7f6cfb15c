package httpapi_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"examprep.dev/api/openapi/openapitest"
	"examprep.dev/server/httpapi"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

// TestTheLimitsAreTheContracts sends each field of each request at every limit that the contract names, just inside and
// just outside: the first must not be refused for that field, the second must be, by its name. So a limit that is changed
// in code or in the document alone is found. Ajv judges each answer too.
func TestTheLimitsAreTheContracts(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.api = s.variant(httpapi.Config{MaxHeaderBytes: 128 << 10}, nil) // room for parameters that are too long
	s.recorder = &openapitest.Recorder{Document: document(t)}
	s.cookie = s.signIn("ada")
	testkit.Exec(t, s.Pool, "UPDATE accounts SET key_limit = 1000") // a key for each trial
	s.hook = s.newWebhook(s.cookie)
	d := document(t)
	sent := 0
	for _, o := range d.Operations() {
		for _, field := range d.Fields(o) {
			trials, err := d.Trials(field)
			check.NoError(t, err)
			for _, trial := range append(trials, s.knownTrials(o, field)...) {
				if exempt(o, field, trial) {
					continue
				}
				sent++
				s.try(o, field, trial)
			}
			s.tryWithout(o, field)
		}
	}
	if sent < 300 {
		t.Errorf("only %d values were tried: the document's limits are not found any more", sent)
	}
	for _, fault := range judgeByAjv(t, s.recorder.Exchanges()) {
		t.Errorf("by Ajv: %s", fault)
	}
}

// TestTheDefaultsAreTheContracts lists more elements than a response shows by default. The number of shown elements is the default
// in the contract.
func TestTheDefaultsAreTheContracts(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.cookie = s.signIn("ada")
	s.hook = s.newWebhook(s.cookie)
	for _, c := range []struct {
		operation, field, list string
		more                   func(n int)
	}{
		{"openMockPaper", "question_limit", "questions", func(int) {}}, // the paper has enough
		{"getMockQuestionPage", "question_limit", "questions", func(int) {}},
		{"listMockAttempts", "limit", "attempts", func(n int) { repeat(n, s.open) }},
		{"listKeys", "limit", "keys", func(n int) { s.insertKeys(s.cookie, n) }},
		{"listWebhookDeliveries", "limit", "deliveries", func(n int) { repeat(n, s.newDelivery) }},
	} {
		t.Run(c.operation, func(t *testing.T) {
			o, field := findField(t, c.operation, c.field)
			standard, err := strconv.Atoi(document(t).Default(field))
			if err != nil {
				t.Fatalf("%s of %s has no default", c.field, c.operation)
			}
			c.more(standard + 1)
			list, _ := s.send(s.request(o)).document(t)[c.list].([]any)
			check.Equal(t, len(list), standard, "%s", c.list)
		})
	}
}

func repeat[T any](n int, do func() T) {
	for range n {
		do()
	}
}

func findField(t *testing.T, operation, name string) (openapitest.Operation, openapitest.Field) {
	t.Helper()
	for _, o := range document(t).Operations() {
		for _, field := range document(t).Fields(o) {
			if o.ID == operation && field.Name == name {
				return o, field
			}
		}
	}
	t.Fatalf("the document has no %s of %s", name, operation)
	return openapitest.Operation{}, openapitest.Field{}
}

// knownTrials returns values that name an existing resource, as the field requires.
func (s *stage) knownTrials(o openapitest.Operation, f openapitest.Field) []openapitest.Trial {
	allowed := func(value string) []openapitest.Trial { return []openapitest.Trial{{Value: value, Allowed: true}} }
	switch o.ID + " " + f.Name {
	case "listKeys before", "getUsage key_prefix":
		return allowed(s.newKeyPrefix(`{"name":"ci"}`))
	case "createKey inherit_from":
		return allowed(strconv.Quote(s.newKeyPrefix(`{"name":"ci"}`)))
	case "listWebhookDeliveries before":
		return allowed(s.newDelivery())
	case "inviteMember email":
		return allowed(`"Ada@Example.org"`)
	case "recoverWebhook since":
		return allowed(strconv.Quote(time.Now().Add(-time.Hour).Format(time.RFC3339Nano)))
	default:
		return nil
	}
}

// exempt tells the values that are judged by more than the schema can say.
func exempt(o openapitest.Operation, f openapitest.Field, trial openapitest.Trial) bool {
	switch o.ID + " " + f.Name {
	case "getUsage from", "getUsage to": // together they span some days
		return trial.Allowed && trial.Value != time.Now().UTC().Format(time.DateOnly)
	case "recoverWebhook since": // it lies in the past
		return trial.Allowed && strings.HasPrefix(trial.Value, `"2999`)
	default:
		return false
	}
}

func (s *stage) try(o openapitest.Operation, f openapitest.Field, trial openapitest.Trial) {
	s.t.Helper()
	r := s.request(o)
	if f.InBody {
		r.body = withMember(s.t, r.body, f.Name, json.RawMessage(trial.Value))
	} else {
		r.path = withParameter(r.path, f.Name, trial.Value)
	}
	got := s.send(r)
	named := namesField(got, f.Name)
	switch {
	case trial.Allowed && named:
		s.t.Errorf("%s: %s may be %s, but: %s", o.ID, f.Name, short(trial.Value), got.body)
	case trial.Allowed && got.status >= http.StatusInternalServerError:
		s.t.Errorf("%s: %s = %s: %d %s", o.ID, f.Name, short(trial.Value), got.status, got.body)
	case !trial.Allowed && o.ID == "completeSignIn": // a navigation, which leads to a page
		if at := got.header.Get("Location"); !strings.HasPrefix(at, "/console/refused?reason=refused&") {
			s.t.Errorf("%s: %s must not be %s, but it leads to %s", o.ID, f.Name, short(trial.Value), at)
		}
	case !trial.Allowed && (got.status != http.StatusBadRequest || !named):
		s.t.Errorf("%s: %s must not be %s, but: %d %s", o.ID, f.Name, short(trial.Value), got.status, short(got.body))
	}
}

func (s *stage) tryWithout(o openapitest.Operation, f openapitest.Field) {
	s.t.Helper()
	r := s.request(o)
	if f.InBody {
		r.body = withMember(s.t, r.body, f.Name, nil)
	}
	got := s.send(r)
	if refused := got.status == http.StatusBadRequest && namesField(got, f.Name); refused != f.Required {
		s.t.Errorf("%s without %s (required: %v): %d %s", o.ID, f.Name, f.Required, got.status, short(got.body))
	}
}

func withMember(t testing.TB, object, name string, value json.RawMessage) string {
	t.Helper()
	members := map[string]json.RawMessage{}
	if object != "" {
		testkit.Decode(t, []byte(object), &members)
	}
	if value == nil {
		delete(members, name)
	} else {
		maps.Copy(members, map[string]json.RawMessage{name: value})
	}
	changed := testkit.Encode(t, members)
	return string(changed)
}

func withParameter(path, name, value string) string {
	path, query, _ := strings.Cut(path, "?")
	values, _ := url.ParseQuery(query)
	values.Set(name, value)
	return path + "?" + values.Encode()
}

// namesField reports whether a refusal names the field, or a part of it.
func namesField(r response, name string) bool {
	var refusal struct {
		Errors []struct {
			Field string `json:"field"`
		} `json:"errors"`
	}
	if r.status != http.StatusBadRequest || json.Unmarshal([]byte(r.body), &refusal) != nil {
		return false
	}
	for _, at := range refusal.Errors {
		if at.Field == name || strings.HasPrefix(at.Field, name+".") || strings.HasPrefix(at.Field, name+"[") {
			return true
		}
	}
	return false
}

// short keeps messages readable.
func short(text string) string {
	const most = 100
	if characters := []rune(text); len(characters) > most {
		return string(characters[:most]) + "…"
	}
	return text
}
