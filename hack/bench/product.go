package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/netip"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"examprep.dev/api/v1alpha1"
	"examprep.dev/server/catalog"
	"examprep.dev/server/content/assemble"
	"examprep.dev/server/keys"
	"examprep.dev/server/keys/directory"
	"examprep.dev/server/postgres"
	"examprep.dev/server/webhooks"
)

// This is the only file that imports the product's packages. They do what has no command and no path of the HTTP API that a
// key may use: publishing within a process, and registering webhook endpoints.

// publication is an exam, ready to be published as the operator would.
type publication struct{ exam catalog.ValidExam }

func newPublication(ctx context.Context, content *v1alpha1.ExamContent) (publication, error) {
	exam, err := assemble.Assemble(ctx, content, nil) // all questions are inline
	if err != nil {
		return publication{}, fmt.Errorf("assemble %s: %w", content.Name, err)
	}
	return publication{exam}, nil
}

func (p publication) publish(ctx context.Context, pool *pgxpool.Pool) error {
	claim := catalog.Claim{Cluster: "bench", Namespace: contentNamespace, Name: p.exam.Key()}
	_, err := catalog.NewPublisher(pool, postgres.Sandbox).Publish(ctx, claim, p.exam, catalog.Options{})
	if err != nil {
		return fmt.Errorf("publish %s: %w", p.exam.Key(), err)
	}
	return nil
}

// kindScored is the kind of event that the bench writes.
const kindScored = "mock_attempt.scored"

// registrar registers and deletes webhook endpoints.
type registrar struct{ endpoints *webhooks.Managed }

func (s *stack) newRegistrar(pool *pgxpool.Pool) (registrar, error) {
	keyring, err := webhooks.ParseKeyring(s.encryptionKeys)
	if err != nil {
		return registrar{}, err
	}
	return registrar{webhooks.NewManaged(pool, keyring, webhooks.NewAddressPolicy([]netip.Prefix{loopback()}))}, nil
}

func (r registrar) register(ctx context.Context, owner uuid.UUID, url string) (uuid.UUID, error) {
	registered, err := r.endpoints.Apply(ctx, webhooks.ManagedEndpoint{
		Owner: resource(owner, url), Account: uuid.NullUUID{UUID: owner, Valid: true}, URL: url,
		Events: []webhooks.Kind{kindScored}, Secret: webhooks.NewSecret(),
	})
	return registered.ID, err
}

func (r registrar) delete(ctx context.Context, owner uuid.UUID, url string) error {
	return r.endpoints.Delete(ctx, resource(owner, url))
}

// keyStore changes keys and tiers, and waits for the pods.
type keyStore struct{ store *keys.Store }

func newKeyStore(pool *pgxpool.Pool) keyStore {
	return keyStore{keys.NewStore(pool, directory.NewAuthor(pool, directory.AuthorConfig{}))}
}

// deleteOne deletes a tier. Only the operator deletes tiers, so there is no command for it.
func (k keyStore) deleteOne(ctx context.Context, tier string) error {
	if err := k.store.DeleteTier(ctx, tier, ""); err != nil {
		return fmt.Errorf("delete tier %s: %w", tier, err)
	}
	return nil
}

// revoke revokes a key by its prefix.
func (k keyStore) revoke(ctx context.Context, prefix string) error {
	return k.store.RevokeAny(ctx, prefix) //nolint:wrapcheck // the caller does
}

// redisPrefix begins the Redis names of the installation that a database belongs to.
func redisPrefix(ctx context.Context, pool *pgxpool.Pool) (string, error) {
	installation, err := postgres.ReadInstallation(ctx, pool, postgres.Sandbox)
	if err != nil {
		return "", fmt.Errorf("read the installation: %w", err)
	}
	return installation.RedisPrefix(), nil
}

// resource is the name of the resource that would declare an endpoint.
func resource(owner uuid.UUID, url string) string { return "bench/" + owner.String() + "/" + url }

// notifier wakes workers after a commit, as an API pod does.
type notifier = webhooks.Notifier

func newNotifier(client redis.UniversalClient, prefix string) *notifier {
	return webhooks.NewNotifier(client, prefix, slog.New(slog.DiscardHandler))
}

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
