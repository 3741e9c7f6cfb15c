package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"examprep.dev/server/webhooks"
)

const (
	// description names the endpoint that seed registers.
	description = "Registered by make dev: this machine has a private address, so its deliveries are refused"
	// endpointAge is how long ago the endpoint was registered.
	endpointAge = 3 * day
	// unknownHost never exists (RFC 2606).
	unknownHost = "receiver.invalid"
	// lookUpTime bounds the look-up of a name.
	lookUpTime = 2 * time.Second
)

// endpoint is a webhook endpoint of the account, with the number of its deliveries in each state.
type endpoint struct {
	ID        uuid.UUID `db:"id"`
	Ours      bool      `db:"ours"`
	Declared  bool      `db:"declared"`
	Enabled   bool      `db:"enabled"`
	Pending   int       `db:"pending"`
	Failed    int       `db:"failed"`
	Delivered int       `db:"delivered"`
}

func (s *seeder) endpoints(ctx context.Context) ([]endpoint, error) {
	rows, _ := s.pool.Query(ctx, `
		SELECT e.id, e.description = $2 AND e.managed_by IS NULL AS ours, e.managed_by IS NOT NULL AS declared,
		       e.status = 'enabled' AS enabled, d.pending, d.failed, d.delivered
		FROM webhook_endpoints e CROSS JOIN LATERAL (
			SELECT count(*) FILTER (WHERE state = 'pending') AS pending, count(*) FILTER (WHERE state = 'failed') AS failed,
			       count(*) FILTER (WHERE state = 'delivered') AS delivered
			FROM webhook_deliveries WHERE endpoint_id = e.id) d
		WHERE e.account_id = $1 ORDER BY e.created_at`, s.accountID, description)
	endpoints, err := pgx.CollectRows(rows, pgx.RowToStructByName[endpoint]) // reports the query's error as well
	if err != nil {
		return nil, fmt.Errorf("read the webhook endpoints: %w", err)
	}
	return endpoints, nil
}

// ensureEndpoint registers a receiver on this machine, as a developer would who does not know the address policy.
func (s *seeder) ensureEndpoint(ctx context.Context) error {
	endpoints, err := s.endpoints(ctx)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(endpoints, func(e endpoint) bool { return e.Ours }) {
		return nil
	}
	body := map[string]any{
		"url":         "https://" + net.JoinHostPort(s.privateHost(ctx), s.receiverPort) + "/hook",
		"events":      []webhooks.Kind{webhooks.KindSubmitted, webhooks.KindScored},
		"description": description,
	}
	var created struct {
		ID uuid.UUID `json:"id"`
	}
	if err := s.call(ctx, http.MethodPost, "/webhooks", body, http.StatusCreated, &created); err != nil {
		return err
	}
	s.madef("a webhook endpoint")
	_, err = s.pool.Exec(ctx, "UPDATE webhook_endpoints SET created_at = $2 WHERE id = $1", created.ID, s.now().Add(-endpointAge))
	return err
}

// privateHost returns a name of this machine that can be registered and whose addresses are all refused when they are
// dialled. Without one it returns a name that does not exist: its deliveries fail too.
func (s *seeder) privateHost(ctx context.Context) string {
	policy := webhooks.NewAddressPolicy(nil)
	for _, host := range s.hosts {
		if policy.CheckURL("https://"+net.JoinHostPort(host, s.receiverPort)) == nil && refused(ctx, policy, host) {
			return host
		}
	}
	return unknownHost
}

// refused reports whether a host has addresses and the policy refuses all of them.
func refused(ctx context.Context, policy *webhooks.AddressPolicy, host string) bool {
	ctx, cancel := context.WithTimeout(ctx, lookUpTime)
	defer cancel()
	addresses, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	public := func(address netip.Addr) bool { return policy.Check(address) == nil }
	return err == nil && len(addresses) > 0 && !slices.ContainsFunc(addresses, public)
}
