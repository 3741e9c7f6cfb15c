-- +goose Up
-- Owned by server/webhooks.
CREATE TABLE webhook_endpoints (
    id              uuid PRIMARY KEY,
    -- Whose events: NULL is everyone's (an administrator's endpoint, declared in the cluster).
    account_id      uuid REFERENCES accounts,
    url             text NOT NULL,
    events          text[] NOT NULL CHECK (cardinality(events) > 0),
    description     text NOT NULL DEFAULT '',
    status          text NOT NULL DEFAULT 'enabled' CHECK (status IN ('enabled', 'disabled')),
    disabled_reason text NOT NULL DEFAULT '',
    -- cluster/namespace/name of the resource that declares it; read-only over HTTP.
    managed_by      text UNIQUE,
    created_at      timestamptz NOT NULL DEFAULT now(),
    updated_at      timestamptz NOT NULL DEFAULT now(),
    last_success_at timestamptz,
    failing_since   timestamptz,
    last_status     integer
);
CREATE INDEX webhook_endpoints_by_account ON webhook_endpoints (account_id);

-- Encrypted with AES-256-GCM under the encryption key named by key_id. Several while a rotation overlaps.
CREATE TABLE webhook_secrets (
    id          uuid PRIMARY KEY,
    endpoint_id uuid NOT NULL REFERENCES webhook_endpoints ON DELETE CASCADE,
    key_id      text NOT NULL,
    ciphertext  bytea NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT now(),
    expires_at  timestamptz
);
CREATE INDEX webhook_secrets_by_endpoint ON webhook_secrets (endpoint_id);

CREATE TABLE webhook_events (
    id         uuid PRIMARY KEY,
    kind       text NOT NULL,
    account_id uuid,
    -- The exact bytes that are sent and signed, the same at each try.
    body       bytea NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now()
);

-- No foreign keys: their row locks would make every event write to the row of its endpoint. Deleting an endpoint
-- cancels what is pending for it. A row is written four times in its life: pages keep room for that, and vacuum comes
-- early, or the search for due rows would walk past the dead ones.
CREATE TABLE webhook_deliveries (
    -- UUIDv7: neighbours in time are neighbours in every index, and a range of ids is a range of time.
    id              uuid PRIMARY KEY,
    event_id        uuid NOT NULL,
    endpoint_id     uuid NOT NULL,
    state           text NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'delivered', 'failed', 'cancelled')),
    -- Tries begun so far: 1 for the first, up to 6.
    attempt         integer NOT NULL DEFAULT 0,
    -- No try begins before.
    next_attempt_at timestamptz NOT NULL DEFAULT now(),
    -- When the relay looks at the row next. Whoever takes charge of it (the stream, a lease, a full window) moves this
    -- ahead; so the index below holds first what nobody has in hand, however much is waiting.
    relay_at        timestamptz NOT NULL DEFAULT now(),
    -- The fence: a terminal write must name the attempt and the lease that it belongs to.
    lease           uuid,
    lease_until     timestamptz,
    last_status     integer,
    last_error      text NOT NULL DEFAULT '',
    created_at      timestamptz NOT NULL DEFAULT now(),
    finished_at     timestamptz
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX webhook_deliveries_due ON webhook_deliveries (relay_at) WHERE state = 'pending';
CREATE INDEX webhook_deliveries_backlog ON webhook_deliveries (endpoint_id, created_at) WHERE state = 'pending';
CREATE INDEX webhook_deliveries_by_endpoint ON webhook_deliveries (endpoint_id, id DESC);

-- webhook_new_id makes a UUIDv7 (PostgreSQL has its own only from 18 on).
-- +goose StatementBegin
CREATE FUNCTION webhook_new_id() RETURNS uuid
LANGUAGE sql VOLATILE PARALLEL SAFE AS $$
    SELECT encode(set_bit(set_bit(
        overlay(uuid_send(gen_random_uuid())
            PLACING substring(int8send(floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) FROM 3)
            FROM 1 FOR 6),
        52, 1), 53, 1), 'hex')::uuid
$$;
-- +goose StatementEnd

-- webhook_record_event is the outbox's front door. It is a function so that the statement that changes an attempt or
-- publishes an exam writes the event and its deliveries in the same round trip and transaction, while this package
-- stays the only one that knows its tables. It returns the number of deliveries written.
-- +goose StatementBegin
CREATE FUNCTION webhook_record_event(p_id uuid, p_kind text, p_account uuid, p_body bytea) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    written bigint;
BEGIN
    INSERT INTO webhook_events (id, kind, account_id, body) VALUES (p_id, p_kind, p_account, p_body);
    INSERT INTO webhook_deliveries (id, event_id, endpoint_id)
    SELECT webhook_new_id(), p_id, e.id
    FROM webhook_endpoints e
    WHERE e.status = 'enabled'
      AND p_kind = ANY (e.events)
      AND (e.account_id IS NULL OR p_account IS NULL OR e.account_id = p_account);
    GET DIAGNOSTICS written = ROW_COUNT;
    RETURN written;
END
$$;
-- +goose StatementEnd
