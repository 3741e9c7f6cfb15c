package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"examprep.dev/api/v1alpha1"
	"examprep.dev/controllers/manifest"
	"examprep.dev/server/catalog"
	"examprep.dev/server/postgres"
	"examprep.dev/server/webhooks"
)

// This is the only file that imports the product's packages. They do what has no command and no path of the HTTP API that a
// key may use: publishing within a process, and registering webhook endpoints.

// publication is an exam, ready to be published as the operator would.
type publication struct{ exam catalog.Exam }

func newPublication(ctx context.Context, content *v1alpha1.ExamContent) (publication, error) {
	exam, err := manifest.Assemble(ctx, content, nil) // all questions are inline
	if err != nil {
		return publication{}, fmt.Errorf("assemble %s: %w", content.Name, err)
	}
	return publication{exam}, nil
}

func (p publication) publish(ctx context.Context, pool *pgxpool.Pool) error {
	var sweep *notifier // nil: the sweep finds the event
	claim := catalog.Claim{Cluster: "bench", Namespace: contentNamespace, Name: p.exam.Key}
	_, err := catalog.NewPublisher(pool, postgres.Sandbox, sweep).Publish(ctx, claim, p.exam, catalog.Options{})
	if err != nil {
		return fmt.Errorf("publish %s: %w", p.exam.Key, err)
	}
	return nil
}

// kindScored is the kind of event that the bench writes.
const kindScored = "mock_attempt.scored"

// registrar registers and deletes webhook endpoints.
type registrar struct{ endpoints *webhooks.Endpoints }

func (s *stack) newRegistrar(pool *pgxpool.Pool) (registrar, error) {
	keyring, err := webhooks.ParseKeyring(s.encryptionKeys)
	if err != nil {
		return registrar{}, err
	}
	return registrar{webhooks.NewEndpoints(pool, keyring, webhooks.NewAddressPolicy([]netip.Prefix{loopback()}))}, nil
}

func (r registrar) register(ctx context.Context, owner uuid.UUID, url string) (uuid.UUID, error) {
	registered, _, err := r.endpoints.Register(ctx, webhooks.Registration{AccountID: owner, URL: url, Events: []webhooks.Kind{kindScored}})
	return registered.ID, err
}

func (r registrar) delete(ctx context.Context, owner, endpoint uuid.UUID) error {
	return r.endpoints.Delete(ctx, owner, endpoint)
}

// notifier wakes workers after a commit, as an API pod does.
type notifier = webhooks.Notifier

func newNotifier(pool *pgxpool.Pool) *notifier { return webhooks.NewNotifier(pool) }

// event is a webhook's body as a submission writes it.
type event struct {
	id   uuid.UUID
	body []byte
}

func newEvent() (event, error) {
	made := event{id: uuid.Must(uuid.NewV7())}
	type data struct {
		AttemptID         string  `json:"attempt_id"`
		ExamKey           string  `json:"exam_key"`
		PaperID           string  `json:"paper_id"`
		Score             float64 `json:"score"`
		LearnerIDProvided bool    `json:"learner_id_provided"`
	}
	var err error
	made.body, err = json.Marshal(struct {
		Event   string    `json:"event"`
		Created int64     `json:"created"`
		Data    data      `json:"data"`
		ID      uuid.UUID `json:"id"`
	}{kindScored, time.Now().Unix(), data{uuid.NewString(), examKey, paperID, 42.5, true}, made.id})
	return made, err
}
