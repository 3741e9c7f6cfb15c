package webhooks_test

import (
	"encoding/base64"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"examprep.dev/api/openapi"
	"examprep.dev/api/openapi/openapitest"
	"examprep.dev/server/accounts"
	"examprep.dev/server/attempts"
	"examprep.dev/server/attempts/marking"
	"examprep.dev/server/catalog"
	"examprep.dev/server/catalog/catalogtest"
	"examprep.dev/server/catalog/read"
	"examprep.dev/server/keys"
	"examprep.dev/server/postgres"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
	"examprep.dev/server/webhooks"
	"examprep.dev/server/webhooks/delivery"
)

// TestDeliveriesAreWhatTheContractPromises causes each kind of event by the code that records it, and compares the
// deliveries with the contract: headers, and bodies down to their last field.
func TestDeliveriesAreWhatTheContractPromises(t *testing.T) {
	t.Parallel()
	contract := openapi.JSON()
	document, err := openapitest.Load(contract)
	check.NoError(t, err)
	pool := testkit.Database(t)
	keyring, err := webhooks.ParseKeyring("k:" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", 32))))
	check.NoError(t, err)
	loopback := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	endpoints := webhooks.NewManaged(pool, keyring, webhooks.NewAddressPolicy(loopback))
	receiver := testkit.StartReceiver(t, nil)
	account, err := accounts.Ensure(t.Context(), pool, "subscriber")
	check.NoError(t, err)
	want := webhooks.ManagedEndpoint{
		Owner: "test", Account: uuid.NullUUID{UUID: account, Valid: true}, URL: receiver.URL, Events: webhooks.Kinds(), Secret: webhooks.NewSecret(),
	}
	_, err = endpoints.Apply(t.Context(), want)
	check.NoError(t, err)
	want.Secret = webhooks.NewSecret() // from now on two secrets sign
	endpoint, err := endpoints.Apply(t.Context(), want)
	check.NoError(t, err)
	work(t, pool, keyring, receiver, loopback)
	written := letEverythingHappen(t, pool, account)
	if _, err := webhooks.NewDeliveries(pool, func(uuid.UUID) {}).Test(t.Context(), account, endpoint.ID, time.Now()); err != nil {
		t.Fatal(err)
	}

	got := map[string][]testkit.Arrival{}
	for range written + 1 {
		one := receiver.Next(t)
		kind := kindOf(t, one)
		got[kind] = append(got[kind], one)
		if err := document.CheckWebhook(kind, one.Header, one.Body); err != nil {
			t.Errorf("%v: %s", err, one.Body)
		}
	}
	for _, kind := range document.Webhooks() {
		if len(got[kind]) == 0 {
			t.Errorf("%s is documented, but nothing sends it", kind)
		}
		for _, survivor := range survivors(document, kind, got[kind]) {
			t.Errorf("the document of %s could be wrong unseen: %s", kind, survivor)
		}
	}
}

func kindOf(t *testing.T, d testkit.Arrival) string {
	t.Helper()
	var body struct {
		Event string `json:"event"`
	}
	testkit.Decode(t, d.Body, &body)
	return body.Event
}

// work runs a worker until the test ends.
func work(t *testing.T, pool *pgxpool.Pool, keyring *webhooks.Keyring, receiver *testkit.Receiver, allowed []netip.Prefix) {
	t.Helper()
	client, prefix := testkit.Redis(t)
	worker, err := delivery.New(delivery.Config{
		Prefix: prefix, Allowed: delivery.Ranges{Declared: allowed}, SweepInterval: 50 * time.Millisecond,
		CAPEM: receiver.CAPEM(), Timeout: testkit.Patience, LeaseGrace: testkit.Patience,
		StatementTimeout: testkit.Patience, SweepTimeout: testkit.Patience,
	}, pool, client, keyring)
	check.NoError(t, err)
	testkit.Run(t, worker.Run)
}

// letEverythingHappen publishes an exam, changes and withdraws it. In between, attempts end in each way: submitted in time,
// expired, and abandoned. It returns how many events the account receives.
func letEverythingHappen(t *testing.T, pool *pgxpool.Pool, account uuid.UUID) int {
	t.Helper()
	publisher := catalog.NewPublisher(pool, postgres.Sandbox)
	claim := catalog.Claim{Cluster: "test", Namespace: "test", Name: "told"}
	publish := func(exam catalog.Exam) {
		t.Helper()
		if _, err := publisher.Publish(t.Context(), claim, catalogtest.Valid(t, exam), catalog.Options{}); err != nil {
			t.Fatal(err)
		}
	}
	exam := catalog.Exam{Key: "told", Name: "Told", DurationMinutes: 90, Papers: []catalog.Paper{{
		ID: "told-2023", Year: 2023, Language: "en", Marking: &catalog.Marking{Correct: 1},
		Provenance: catalog.Provenance{Publisher: "Board", SourceURL: "https://example.org/2023.pdf", License: "CC0-1.0"},
		Questions: []catalog.Question{{
			Section: 1, Number: 1, Prompt: "True?", Options: map[string]string{"A": "yes", "B": "no"},
			Answer: catalog.Answer{Kind: catalog.AnswerChoice, Choices: []string{"A"}},
		}},
	}}}
	publish(exam)
	sit(t, pool, account, exam.Key, exam.Papers[0].ID)
	exam.Name = "Told again"
	publish(exam)
	check.NoError(t, publisher.Release(t.Context(), claim, exam.Key, true))
	const published, submittedAndScored = 3, 2 * 2 // abandoned attempts send nothing
	return published + submittedAndScored
}

// sit opens and submits attempts on a paper.
func sit(t *testing.T, pool *pgxpool.Pool, account uuid.UUID, examKey, paperID string) {
	t.Helper()
	snapshot, err := read.OpenSnapshot(t.Context(), pool, slog.New(slog.DiscardHandler), read.SnapshotConfig{LoadTimeout: testkit.Patience})
	check.NoError(t, err)
	papers := attempts.NewPapers(snapshot)
	service, err := attempts.NewService(attempts.Config{
		NamespaceSecret: []byte(strings.Repeat("n", 32)), Now: time.Now, BatchTimeout: testkit.Patience, LockTimeout: testkit.Patience,
	}, pool, papers, (*webhooks.Notifier)(nil))
	check.NoError(t, err)
	t.Cleanup(service.Close)
	who := keys.Identity{KeyID: uuid.New(), FamilyID: uuid.New(), AccountID: account}
	for _, c := range []struct {
		learner string
		status  attempts.State
		answers []marking.Answer
	}{
		{"learner-1", attempts.StateSubmitted, []marking.Answer{{Key: "1:1", Value: "A"}}},
		{"", attempts.StateExpired, nil},
		{"", attempts.StateAbandoned, nil},
	} {
		opened, err := service.Open(t.Context(), who, attempts.OpenRequest{ExamKey: examKey, PaperID: paperID, Limit: 1, LearnerID: c.learner})
		check.NoError(t, err)
		if _, err := service.Submit(t.Context(), who, attempts.SubmitRequest{
			ExamKey: examKey, AttemptID: opened.AttemptID, Status: c.status, Answers: c.answers, LearnerID: c.learner,
		}); err != nil {
			t.Fatal(err)
		}
	}
}

// survivors are the mutations of a webhook's document that none of its deliveries contradicts: the body, or its data, with
// a required field more.
func survivors(document *openapitest.Document, kind string, deliveries []testkit.Arrival) []string {
	body, _, _ := document.Resolve(openapitest.Location("").Child("webhooks", kind, "post", "requestBody", "content", "application/json", "schema"))
	var left []string
	for _, at := range []openapitest.Location{body, body.Child("properties", "data")} {
		_, schema, _ := document.Resolve(at)
		required, _ := schema["required"].([]any)
		mutated := document.Replace(at.Child("required"), append(slices.Clone(required), "added_by_mutation"))
		if !slices.ContainsFunc(deliveries, func(d testkit.Arrival) bool { return mutated.CheckWebhook(kind, d.Header, d.Body) != nil }) {
			left = append(left, string(at))
		}
	}
	return left
}
