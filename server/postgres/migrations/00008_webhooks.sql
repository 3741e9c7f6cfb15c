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
    -- The HTTP status of the last attempt, NULL without a response, and the class of its failure, empty after a success.
    last_status     integer,
    last_failure    text NOT NULL DEFAULT ''
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

-- Events, deliveries and attempts are in partitions of whole weeks by id, so that old rows are deleted by dropping a table.
-- `examprep migrate` and the workers (server/webhooks/delivery/retention) make the partitions. The default partitions
-- stay empty; they only prevent an insert from failing if a partition is missing, and an alert fires if they have rows.
CREATE TABLE webhook_events (
    id          uuid PRIMARY KEY,
    kind        text NOT NULL,
    account_id  uuid,
    -- The exact bytes that are sent and signed, the same at each attempt.
    body        bytea NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT now(),
    -- The W3C traceparent of the request that caused the event, so that its delivery joins that trace; NULL if the request
    -- was not sampled.
    traceparent text
) PARTITION BY RANGE (id);
CREATE TABLE webhook_events_default PARTITION OF webhook_events DEFAULT;

-- No foreign keys: their row locks would make every event write to the row of its endpoint. Deleting an endpoint
-- cancels its pending deliveries. A row is written three times: pages keep room for that, and autovacuum starts early,
-- so that the search for due rows does not walk past dead rows.
CREATE TABLE webhook_deliveries (
    -- UUIDv7: neighbours in time are neighbours in every index, and a range of ids is a range of time.
    id              uuid PRIMARY KEY,
    event_id        uuid NOT NULL,
    endpoint_id     uuid NOT NULL,
    -- The event's kind, so that a list of one kind reads no events.
    event           text NOT NULL,
    state           text NOT NULL DEFAULT 'pending'
        CONSTRAINT webhook_deliveries_state_check CHECK (state IN ('pending', 'delivered', 'failed', 'cancelled')),
    -- Attempts so far, lost ones included: 1 for the first.
    attempt         integer NOT NULL DEFAULT 0,
    -- No attempt starts before this time.
    next_attempt_at timestamptz NOT NULL DEFAULT now(),
    -- The fence: a result must name the lease and the attempt that it belongs to. Each write of a final state clears it.
    lease_id        uuid,
    lease_until     timestamptz,
    last_status     integer,
    last_failure    text NOT NULL DEFAULT '',
    created_at      timestamptz NOT NULL DEFAULT now(),
    finished_at     timestamptz,
    -- Attempts whose worker stopped before it reported a result. They do not count toward the retry limit.
    lost_attempts   integer NOT NULL DEFAULT 0,
    -- The first delivery of the event to this endpoint; NULL for that one itself.
    original_id     uuid,
    -- It ended without success before a later delivery of the same event was made, which replaces it.
    superseded      boolean NOT NULL DEFAULT false
) PARTITION BY RANGE (id);
CREATE TABLE webhook_deliveries_default PARTITION OF webhook_deliveries DEFAULT
    WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
-- For leases, the sweep, the backlog and cancelling.
CREATE INDEX webhook_deliveries_due ON webhook_deliveries (endpoint_id, next_attempt_at) WHERE state = 'pending';
CREATE INDEX webhook_deliveries_by_endpoint ON webhook_deliveries (endpoint_id, id DESC);
-- For redeliveries and recoveries. Apart from delivered ones, it has at most one delivery of an event to an endpoint.
CREATE INDEX webhook_deliveries_original ON webhook_deliveries (original_id, state, finished_at)
    WHERE original_id IS NOT NULL AND NOT superseded;
-- For recoveries. A delivery that arrives is never in it.
CREATE INDEX webhook_deliveries_missed ON webhook_deliveries (endpoint_id, finished_at, id)
    WHERE state IN ('failed', 'cancelled') AND NOT superseded;
-- For lists of one of these states. A delivery that arrives is never in it.
CREATE INDEX webhook_deliveries_ended ON webhook_deliveries (endpoint_id, state, id DESC)
    WHERE state IN ('failed', 'cancelled');
-- Counts the failures since the last success. Cancelled deliveries are not in it, of which an endpoint can have very many.
CREATE INDEX webhook_deliveries_failed ON webhook_deliveries (endpoint_id, finished_at) WHERE state = 'failed' AND NOT superseded;

-- The result of each attempt, written by the statement that writes it to the delivery.
CREATE TABLE webhook_attempts (
    delivery_id uuid NOT NULL,
    -- 1 for the first. An attempt whose worker died before it reported has the failure worker_lost.
    attempt     integer NOT NULL,
    began_at    timestamptz NOT NULL,
    duration_ms integer NOT NULL,
    -- The HTTP status; NULL if no response came.
    status      integer,
    -- The class of the failure; empty if the delivery succeeded.
    failure     text NOT NULL DEFAULT '',
    -- The first bytes of the response, bounded and redacted.
    response    text NOT NULL DEFAULT '',
    PRIMARY KEY (delivery_id, attempt)
) PARTITION BY RANGE (delivery_id);
CREATE TABLE webhook_attempts_default PARTITION OF webhook_attempts DEFAULT;

-- uuidv7_at returns the least id (UUIDv7) of a moment: a range of ids is a range of time.
-- +goose StatementBegin
CREATE FUNCTION uuidv7_at(moment timestamptz) RETURNS uuid
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT (lpad(to_hex(floor(extract(epoch FROM moment) * 1000)::bigint), 12, '0') || repeat('0', 20))::uuid
$$;
-- +goose StatementEnd

-- uuidv7 makes a UUIDv7 (PostgreSQL has its own only from 18 on).
-- +goose StatementBegin
CREATE FUNCTION uuidv7() RETURNS uuid
LANGUAGE sql VOLATILE PARALLEL SAFE AS $$
    SELECT encode(set_bit(set_bit(
        overlay(uuid_send(gen_random_uuid())
            PLACING substring(int8send(floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) FROM 3)
            FROM 1 FOR 6),
        52, 1), 53, 1), 'hex')::uuid
$$;
-- +goose StatementEnd

-- webhook_record_events writes events and their deliveries in the transaction of the changes that the events report. Each enabled
-- endpoint that subscribes to an event gets one delivery. An event without an account goes to the endpoints of all accounts. The
-- function returns the ids of the endpoints. Its callers write no table of server/webhooks.
-- An event's id decides which partition holds it. So if an id was made by a clock that is more than a day wrong, the event gets
-- another id, and its body has it too.
-- +goose StatementBegin
CREATE FUNCTION webhook_record_events(p_ids uuid[], p_kinds text[], p_accounts uuid[], p_bodies bytea[], p_traceparents text[])
RETURNS uuid[]
LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan -- one plan fits; for few events a custom plan looks cheaper, and each call would make one
SET jit = off -- with many endpoints, the branch for events without an account makes the plan look expensive enough to compile
AS $$
DECLARE
    least uuid := uuidv7_at(now() - interval '1 day');
    most uuid := uuidv7_at(now() + interval '1 day');
    written uuid[];
BEGIN
    WITH given AS MATERIALIZED (
        SELECT g.*, CASE WHEN g.id BETWEEN least AND most THEN g.id ELSE uuidv7() END AS event_id
        FROM unnest(p_ids, p_kinds, p_accounts, p_bodies, p_traceparents) AS g (id, kind, account_id, body, traceparent)
    ), events AS (
        INSERT INTO webhook_events (id, kind, account_id, body, traceparent)
        SELECT g.event_id, g.kind, g.account_id, CASE WHEN g.event_id = g.id THEN g.body
            ELSE convert_to(replace(convert_from(g.body, 'UTF8'), g.id::text, g.event_id::text), 'UTF8') END, g.traceparent
        FROM given g
    ), deliveries AS (
        INSERT INTO webhook_deliveries (id, event_id, endpoint_id, event)
        SELECT uuidv7(), g.event_id, e.id, g.kind
        FROM given g CROSS JOIN LATERAL ( -- three branches: with an OR in one condition, a generic plan reads all endpoints
            SELECT own.id, own.status, own.events FROM webhook_endpoints own WHERE own.account_id = g.account_id
            UNION ALL
            SELECT a.id, a.status, a.events FROM webhook_endpoints a WHERE a.account_id IS NULL
            UNION ALL
            SELECT o.id, o.status, o.events FROM webhook_endpoints o WHERE g.account_id IS NULL AND o.account_id IS NOT NULL) e
        WHERE e.status = 'enabled' AND g.kind = ANY (e.events)
        RETURNING endpoint_id
    )
    SELECT array_agg(DISTINCT d.endpoint_id) INTO written FROM deliveries d;
    RETURN coalesce(written, '{}');
END
$$;
-- +goose StatementEnd

-- webhook_record_event is webhook_record_events for one event.
CREATE FUNCTION webhook_record_event(p_id uuid, p_kind text, p_account uuid, p_body bytea, p_traceparent text DEFAULT NULL)
RETURNS uuid[] LANGUAGE sql AS
    'SELECT webhook_record_events(ARRAY[p_id], ARRAY[p_kind], ARRAY[p_account], ARRAY[p_body], ARRAY[p_traceparent])';

-- The partitions of events, deliveries and attempts: ids from lower (NULL: from the least) to before upper. The default
-- partition has neither.
-- +goose StatementBegin
DO $$
BEGIN -- in a DO block, because sqlc does not know pg_inherits
    CREATE VIEW webhook_partitions AS
    SELECT substring(p.relname FROM '^webhook_(.*)$')::text AS kind, c.relname::text AS name,
        substring(pg_get_expr(c.relpartbound, c.oid) FROM 'FROM \(''([0-9a-f-]{36})''\)')::uuid AS lower,
        substring(pg_get_expr(c.relpartbound, c.oid) FROM 'TO \(''([0-9a-f-]{36})''\)')::uuid AS upper
    FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid JOIN pg_class p ON p.oid = i.inhparent
    WHERE i.inhparent IN ('webhook_events'::regclass, 'webhook_deliveries'::regclass, 'webhook_attempts'::regclass);
END
$$;
-- +goose StatementEnd

-- webhook_add_partition makes the partition of a kind from one moment to another and reports whether it did. It does nothing
-- if a part of that time has one, or while another process works on partitions. The table is made by itself and attached,
-- which leaves the other partitions to their readers and writers.
-- +goose StatementBegin
CREATE FUNCTION webhook_add_partition(a_kind text, a_start timestamptz, an_end timestamptz) RETURNS boolean
LANGUAGE plpgsql SET lock_timeout = '200ms' AS $$
DECLARE
    least uuid := uuidv7_at(a_start);
    bound uuid := uuidv7_at(an_end);
    parent text := 'webhook_' || a_kind;
    child text := parent || '_' || to_char(a_start AT TIME ZONE 'UTC', 'YYYYMMDD');
    storage text := CASE a_kind WHEN 'deliveries'
        THEN 'WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0)' ELSE '' END;
BEGIN
    IF NOT pg_try_advisory_xact_lock(hashtextextended('webhook_partitions', 0)) THEN
        RETURN false;
    END IF;
    -- A statement of its own: it must see what the last holder of the lock has committed.
    IF EXISTS (SELECT FROM webhook_partitions p WHERE p.kind = a_kind AND p.upper > least AND (p.lower IS NULL OR p.lower < bound)) THEN
        RETURN false;
    END IF;
    EXECUTE format('CREATE TABLE %I (LIKE %I INCLUDING DEFAULTS INCLUDING CONSTRAINTS) %s', child, parent, storage);
    EXECUTE format('ALTER TABLE %I ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', parent, child, least, bound);
    RETURN true;
END
$$;
-- +goose StatementEnd

-- webhook_drop_partition drops a partition and reports whether it did. A partition of deliveries stays while it has pending
-- rows, unless it is forced. PostgreSQL detaches no partition CONCURRENTLY if there is a default partition, so the whole
-- table is locked for a moment; after 200 ms without the lock it gives up.
-- +goose StatementBegin
CREATE FUNCTION webhook_drop_partition(a_kind text, a_name text, forced boolean) RETURNS boolean
LANGUAGE plpgsql SET lock_timeout = '200ms' AS $$
DECLARE
    pending boolean := false;
BEGIN
    IF NOT pg_try_advisory_xact_lock(hashtextextended('webhook_partitions', 0)) THEN
        RETURN false;
    END IF;
    -- A statement of its own: it must see what the last holder of the lock has committed.
    IF NOT EXISTS (SELECT FROM webhook_partitions p WHERE p.kind = a_kind AND p.name = a_name AND p.upper IS NOT NULL) THEN
        RETURN false;
    END IF;
    IF a_kind = 'deliveries' AND NOT forced THEN
        EXECUTE format('SELECT EXISTS (SELECT FROM %I WHERE state = ''pending'')', a_name) INTO pending;
    END IF;
    IF NOT pending THEN
        EXECUTE format('DROP TABLE %I', a_name);
    END IF;
    RETURN NOT pending;
END
$$;
-- +goose StatementEnd
