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

-- Events, deliveries and attempts are kept in partitions of whole weeks by id, so that old rows go by dropping a table.
-- `examprep migrate` and the workers (server/webhooks/retention.go) make the partitions; an insert never fails for want of
-- one, because each table has a default partition.
CREATE TABLE webhook_events (
    id          uuid PRIMARY KEY,
    kind        text NOT NULL,
    account_id  uuid,
    -- The exact bytes that are sent and signed, the same at each try.
    body        bytea NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT now(),
    -- The W3C traceparent of the request that caused the event, so that its delivery joins that trace; NULL if the request
    -- was not sampled.
    traceparent text
) PARTITION BY RANGE (id);
CREATE TABLE webhook_events_default PARTITION OF webhook_events DEFAULT;

-- No foreign keys: their row locks would make every event write to the row of its endpoint. Deleting an endpoint
-- cancels its pending deliveries. A row is written four times in its life: pages keep room for that, and vacuum comes
-- early, or the search for due rows would walk past the dead ones.
CREATE TABLE webhook_deliveries (
    -- UUIDv7: neighbours in time are neighbours in every index, and a range of ids is a range of time.
    id              uuid PRIMARY KEY,
    event_id        uuid NOT NULL,
    endpoint_id     uuid NOT NULL,
    state           text NOT NULL DEFAULT 'pending'
        CONSTRAINT webhook_deliveries_state_check CHECK (state IN ('pending', 'delivered', 'failed', 'cancelled')),
    -- Tries begun so far: 1 for the first, up to 6.
    attempt         integer NOT NULL DEFAULT 0,
    -- No try begins before.
    next_attempt_at timestamptz NOT NULL DEFAULT now(),
    -- When the relay looks at the row next. The stream, a lease or a full window moves this ahead; so the index
    -- webhook_deliveries_due begins with the rows that no worker has, however many are waiting.
    relay_at        timestamptz NOT NULL DEFAULT now(),
    -- The fence: a terminal write must name the attempt and the lease that it belongs to.
    lease_id        uuid,
    lease_until     timestamptz,
    last_status     integer,
    last_failure    text NOT NULL DEFAULT '',
    created_at      timestamptz NOT NULL DEFAULT now(),
    finished_at     timestamptz,
    -- How many of the attempts begun were lost with the worker that began them; they do not count toward the retry limit.
    lost_attempts   integer NOT NULL DEFAULT 0,
    -- Requested by a developer (a test, a redelivery); the number of those that are pending is limited.
    by_hand         boolean NOT NULL DEFAULT false,
    -- The first delivery of the event to this endpoint; NULL for that one itself.
    original_id     uuid,
    -- It ended before a later delivery of the same event was made, which replaces it.
    superseded      boolean NOT NULL DEFAULT false,
    -- It was put off because its endpoint's queue was full; a worker with room brings it back at once.
    parked          boolean NOT NULL DEFAULT false
) PARTITION BY RANGE (id);
CREATE TABLE webhook_deliveries_default PARTITION OF webhook_deliveries DEFAULT
    WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX webhook_deliveries_due ON webhook_deliveries (relay_at) WHERE state = 'pending';
CREATE INDEX webhook_deliveries_backlog ON webhook_deliveries (endpoint_id, created_at) WHERE state = 'pending';
CREATE INDEX webhook_deliveries_by_endpoint ON webhook_deliveries (endpoint_id, id DESC);
CREATE INDEX webhook_deliveries_by_hand ON webhook_deliveries (endpoint_id) WHERE state = 'pending' AND by_hand;
CREATE INDEX webhook_deliveries_repeats ON webhook_deliveries (original_id) WHERE original_id IS NOT NULL;
-- What a recovery looks for; a delivery that arrives is never in it.
CREATE INDEX webhook_deliveries_missed ON webhook_deliveries (endpoint_id, finished_at, id)
    WHERE state IN ('failed', 'cancelled') AND NOT superseded;
-- What retention looks for under a lock: an old event that is being sent once more.
CREATE INDEX webhook_deliveries_again ON webhook_deliveries (event_id)
    WHERE state = 'pending' AND (by_hand OR original_id IS NOT NULL);

-- The outcome of each try: written by the statement that writes the outcome to the delivery.
CREATE TABLE webhook_attempts (
    delivery_id uuid NOT NULL,
    -- 1 for the first. A try that was lost with its worker has the failure worker_lost.
    attempt     integer NOT NULL,
    began_at    timestamptz NOT NULL,
    duration_ms integer NOT NULL,
    -- The HTTP status; NULL if no response came.
    status      integer,
    -- The class of the failure; '' for a delivery.
    failure     text NOT NULL DEFAULT '',
    -- The first bytes of the response, bounded and cleaned.
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

-- webhook_record_event is the outbox's front door. It is a function so that the statement that changes an attempt or
-- publishes an exam writes the event and its deliveries in the same round trip and transaction, while this package
-- stays the only one that knows its tables. It returns the number of deliveries written.
-- +goose StatementBegin
CREATE FUNCTION webhook_record_event(p_id uuid, p_kind text, p_account uuid, p_body bytea, p_traceparent text DEFAULT NULL)
RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    written bigint;
BEGIN
    INSERT INTO webhook_events (id, kind, account_id, body, traceparent)
    VALUES (p_id, p_kind, p_account, p_body, p_traceparent);
    INSERT INTO webhook_deliveries (id, event_id, endpoint_id)
    SELECT uuidv7(), p_id, e.id
    FROM webhook_endpoints e
    WHERE e.status = 'enabled'
      AND p_kind = ANY (e.events)
      AND (e.account_id IS NULL OR p_account IS NULL OR e.account_id = p_account);
    GET DIAGNOSTICS written = ROW_COUNT;
    RETURN written;
END
$$;
-- +goose StatementEnd

-- What retention does to partitions (server/webhooks/retention.go calls it). All of it waits only for a moment for a lock
-- that others wait behind. Who does not get it tries again later; nothing is urgent here.

-- The partitions of events, deliveries and attempts: ids from lower (NULL: from the least) to before upper; the default
-- partition, which takes what no other does, has neither.
-- +goose StatementBegin
DO $$
BEGIN -- out of sight of sqlc, which does not know pg_inherits
    CREATE VIEW webhook_partitions AS
    SELECT substring(p.relname FROM '^webhook_(.*)$')::text AS kind, c.relname::text AS name,
        substring(pg_get_expr(c.relpartbound, c.oid) FROM 'FROM \(''([0-9a-f-]{36})''\)')::uuid AS lower,
        substring(pg_get_expr(c.relpartbound, c.oid) FROM 'TO \(''([0-9a-f-]{36})''\)')::uuid AS upper
    FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid JOIN pg_class p ON p.oid = i.inhparent
    WHERE i.inhparent IN ('webhook_events'::regclass, 'webhook_deliveries'::regclass, 'webhook_attempts'::regclass);
END
$$;
-- +goose StatementEnd

-- webhook_one_keeper lets one worker at a time work on partitions, to the end of its transaction.
-- +goose StatementBegin
CREATE FUNCTION webhook_one_keeper() RETURNS boolean
LANGUAGE sql VOLATILE AS $$
    SELECT pg_try_advisory_xact_lock(hashtextextended('webhook_partitions', 0))
$$;
-- +goose StatementEnd

-- webhook_disturb_vacuum comes before a strong lock on a table. What it locks no reader or writer waits for, but a vacuum at
-- work minds it: PostgreSQL cancels an autovacuum for who has waited as long as deadlock_timeout (1 s), never for who gives
-- up before, as the strong lock does.
-- +goose StatementBegin
CREATE FUNCTION webhook_disturb_vacuum(a_table text) RETURNS void
LANGUAGE plpgsql SET lock_timeout = '10s' AS $$
BEGIN
    EXECUTE format('LOCK TABLE ONLY %I IN SHARE UPDATE EXCLUSIVE MODE', a_table);
END
$$;
-- +goose StatementEnd

-- webhook_add_partition makes the partition of a kind from one moment to another, and says 'added'; 'busy', where a part of
-- that time has one, or another worker is at it; 'crowded', where the default partition holds more of the time than can
-- move along under a lock: it stays there. The table is made by itself and attached: that leaves the others to their
-- readers and writers, but for the default partition.
-- +goose StatementBegin
CREATE FUNCTION webhook_add_partition(a_kind text, a_start timestamptz, an_end timestamptz) RETURNS text
LANGUAGE plpgsql SET lock_timeout = '200ms' AS $$
DECLARE
    least uuid := uuidv7_at(a_start);
    bound uuid := uuidv7_at(an_end);
    parent text := 'webhook_' || a_kind;
    fallback text := parent || '_default';
    child text := parent || '_' || to_char(a_start AT TIME ZONE 'UTC', 'YYYYMMDD');
    key text := CASE a_kind WHEN 'attempts' THEN 'delivery_id' ELSE 'id' END;
    storage text := CASE a_kind WHEN 'deliveries'
        THEN 'WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0)' ELSE '' END;
    crowd text;
    crowded boolean;
BEGIN
    IF NOT webhook_one_keeper() OR EXISTS (
        SELECT FROM webhook_partitions p WHERE p.kind = a_kind AND p.upper > least AND (p.lower IS NULL OR p.lower < bound))
    THEN
        RETURN 'busy';
    END IF;
    crowd := format('SELECT count(*) > 10000 FROM (SELECT FROM %I WHERE %I >= %L AND %I < %L LIMIT 10001) s',
        fallback, key, least, key, bound);
    EXECUTE crowd INTO crowded;
    IF crowded THEN
        RETURN 'crowded';
    END IF;
    EXECUTE format('CREATE TABLE %I (LIKE %I INCLUDING DEFAULTS INCLUDING CONSTRAINTS) %s', child, parent, storage);
    PERFORM webhook_disturb_vacuum(fallback);
    -- An insert that was on its way to the default partition already would be refused there. So those of a week that has
    -- begun (nearly: clocks differ) are kept out; of one to come there are none.
    EXECUTE format('LOCK TABLE ONLY %I IN %s MODE', parent, CASE WHEN a_start < clock_timestamp() + interval '1 day'
        THEN 'SHARE ROW EXCLUSIVE' ELSE 'SHARE UPDATE EXCLUSIVE' END);
    EXECUTE format('LOCK TABLE %I IN ACCESS EXCLUSIVE MODE', fallback);
    EXECUTE crowd INTO crowded;
    IF crowded THEN
        EXECUTE format('DROP TABLE %I', child);
        RETURN 'crowded';
    END IF;
    EXECUTE format('WITH strays AS (DELETE FROM %I WHERE %I >= %L AND %I < %L RETURNING *) INSERT INTO %I SELECT * FROM strays',
        fallback, key, least, key, bound, child);
    EXECUTE format('ALTER TABLE %I ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', parent, child, least, bound);
    RETURN 'added';
END
$$;
-- +goose StatementEnd

-- webhook_end_pending fails what is pending in a partition of deliveries with ids before a bound, most rows, and says how
-- many it failed: only what workers have looked at lately and nobody has in hand. So one that can never be sent (its
-- secret's key is lost) ends, but none that waits for workers that were away.
-- +goose StatementBegin
CREATE FUNCTION webhook_end_pending(a_name text, bound uuid, most integer) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    ended bigint;
BEGIN
    IF NOT webhook_one_keeper()
        OR NOT EXISTS (SELECT FROM webhook_partitions p WHERE p.kind = 'deliveries' AND p.name = a_name)
    THEN
        RETURN 0;
    END IF;
    EXECUTE format('UPDATE %I SET state = ''failed'', lease_id = NULL, lease_until = NULL, finished_at = now(),
            last_failure = CASE WHEN last_failure = '''' THEN ''cancelled'' ELSE last_failure END
        WHERE id = ANY (ARRAY(
            SELECT d.id FROM %I d
            WHERE d.state = ''pending'' AND d.id < $1 AND d.relay_at > now() - interval ''1 hour''
              AND (d.lease_until IS NULL OR d.lease_until <= now())
            LIMIT $2 FOR UPDATE SKIP LOCKED))', a_name, a_name) USING bound, most;
    GET DIAGNOSTICS ended = ROW_COUNT;
    RETURN ended;
END
$$;
-- +goose StatementEnd

-- webhook_retire_partition detaches a partition, renames it for webhook_drop_retired, and says 'retired'. It stays as long as
-- deliveries need it: 'pending', where it holds one or the event of one; 'needed', where deliveries of its time are kept
-- still; 'busy', while another worker is at it. A partition is never detached CONCURRENTLY, for PostgreSQL does not beside a
-- default partition: the lock on the whole table is held for the moment that it takes.
-- +goose StatementBegin
CREATE FUNCTION webhook_retire_partition(a_kind text, a_name text) RETURNS text
LANGUAGE plpgsql SET lock_timeout = '200ms' AS $$
DECLARE
    parent text := 'webhook_' || a_kind;
    old webhook_partitions;
    pending boolean;
BEGIN
    IF NOT webhook_one_keeper() THEN
        RETURN 'busy';
    END IF;
    SELECT * INTO old FROM webhook_partitions p WHERE p.kind = a_kind AND p.name = a_name AND p.upper IS NOT NULL;
    IF NOT FOUND THEN
        RETURN 'busy'; -- it was at it
    END IF;
    IF a_kind <> 'deliveries' AND EXISTS (
        SELECT FROM webhook_partitions p
        WHERE p.kind = 'deliveries' AND p.upper > coalesce(old.lower, '00000000-0000-0000-0000-000000000000')
          AND (p.lower IS NULL OR p.lower < old.upper))
    THEN
        RETURN 'needed';
    END IF;
    IF a_kind = 'deliveries' THEN
        EXECUTE format('SELECT EXISTS (SELECT FROM %I WHERE state = ''pending'')', a_name) INTO pending;
    ELSIF a_kind = 'events' THEN
        pending := EXISTS (
            SELECT FROM webhook_deliveries d
            WHERE d.state = 'pending' AND d.event_id < old.upper AND (old.lower IS NULL OR d.event_id >= old.lower));
    END IF;
    IF pending THEN
        RETURN 'pending';
    END IF;
    PERFORM webhook_disturb_vacuum(a_name), webhook_disturb_vacuum(parent || '_default');
    EXECUTE format('LOCK TABLE ONLY %I IN ACCESS EXCLUSIVE MODE', parent);
    -- Meanwhile somebody may have had an old event sent once more. There is an index of just these.
    IF a_kind = 'events' AND EXISTS (
        SELECT FROM webhook_deliveries d
        WHERE d.state = 'pending' AND (d.by_hand OR d.original_id IS NOT NULL)
          AND d.event_id < old.upper AND d.event_id >= coalesce(old.lower, '00000000-0000-0000-0000-000000000000'))
    THEN
        RETURN 'pending';
    END IF;
    EXECUTE format('ALTER TABLE %I DETACH PARTITION %I', parent, a_name);
    EXECUTE format('ALTER TABLE %I RENAME TO %I', a_name, a_name || '_retired');
    RETURN 'retired';
END
$$;
-- +goose StatementEnd

-- webhook_drop_retired drops the tables that webhook_retire_partition detached, and says how many. What somebody else has
-- detached, or not attached yet, is no concern of it.
-- +goose StatementBegin
CREATE FUNCTION webhook_drop_retired() RETURNS bigint
LANGUAGE plpgsql SET lock_timeout = '200ms' AS $$
DECLARE
    retired text;
    dropped bigint := 0;
BEGIN
    IF NOT webhook_one_keeper() THEN
        RETURN 0;
    END IF;
    FOR retired IN
        SELECT c.relname FROM pg_class c
        WHERE c.relkind = 'r' AND c.relname ~ '^webhook_(events|deliveries|attempts)_[0-9]{8}_retired$'
          AND c.relnamespace = (SELECT p.relnamespace FROM pg_class p WHERE p.oid = 'webhook_events'::regclass)
          AND NOT c.relispartition
    LOOP
        PERFORM webhook_disturb_vacuum(retired);
        EXECUTE format('DROP TABLE %I', retired);
        dropped := dropped + 1;
    END LOOP;
    RETURN dropped;
END
$$;
-- +goose StatementEnd

-- webhook_sweep_default deletes rows of the default partitions with ids before a bound, most of each kind, and says how
-- many it deleted: no delivery that is pending, no try of a delivery that is there, no event of one that is pending.
-- +goose StatementBegin
CREATE FUNCTION webhook_sweep_default(bound uuid, most integer) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    swept bigint;
    total bigint := 0;
BEGIN
    IF NOT webhook_one_keeper() THEN
        RETURN 0;
    END IF;
    DELETE FROM webhook_deliveries_default WHERE id = ANY (ARRAY(
        SELECT d.id FROM webhook_deliveries_default d WHERE d.id < bound AND d.state <> 'pending' LIMIT most));
    GET DIAGNOSTICS swept = ROW_COUNT;
    total := total + swept;
    DELETE FROM webhook_attempts_default WHERE delivery_id = ANY (ARRAY(
        SELECT t.delivery_id FROM webhook_attempts_default t
        WHERE t.delivery_id < bound AND NOT EXISTS (SELECT FROM webhook_deliveries d WHERE d.id = t.delivery_id) LIMIT most));
    GET DIAGNOSTICS swept = ROW_COUNT;
    total := total + swept;
    DELETE FROM webhook_events_default WHERE id = ANY (ARRAY(
        SELECT ev.id FROM webhook_events_default ev
        WHERE ev.id < bound
          AND NOT EXISTS (SELECT FROM webhook_deliveries d WHERE d.state = 'pending' AND d.event_id = ev.id) LIMIT most));
    GET DIAGNOSTICS swept = ROW_COUNT;
    RETURN total + swept;
END
$$;
-- +goose StatementEnd
