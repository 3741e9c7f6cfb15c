-- +goose NO TRANSACTION
-- +goose Up
-- Events, deliveries and tries are kept in partitions of whole weeks by id, so that what is old goes by dropping a table
-- (server/webhooks/retention.go, which also makes the next ones). What was there becomes the first partition, one table at a
-- time: a constraint says where it ends; that is proved beside readers and writers, for ATTACH would read the whole table
-- under a lock; then the tables change places in a transaction of a few milliseconds. Where a lock is not to be had it gives
-- way and is tried again (Migrate). A statement that waited meanwhile finds the new table by its name.

-- webhook_table_until is where the constraint of a table ends it; NULL where there is none.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION webhook_table_until(a_table text) RETURNS uuid
LANGUAGE sql STABLE AS $$
    SELECT substring(pg_get_constraintdef(oid) FROM '[0-9a-f]{8}-[0-9a-f-]{27}')::uuid FROM pg_constraint
    WHERE conrelid = a_table::regclass AND conname = a_table || '_until'
$$;
-- +goose StatementEnd

-- webhook_lock_alone locks a table for the caller alone, in a moment or not at all. The first lock is one that no reader or
-- writer waits for, but a vacuum at work minds it: PostgreSQL cancels an autovacuum for who has waited as long as
-- deadlock_timeout (1 s), never for who gives up before.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION webhook_lock_alone(a_table text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('lock_timeout', '10s', true);
    EXECUTE format('LOCK TABLE %I IN SHARE UPDATE EXCLUSIVE MODE', a_table);
    PERFORM set_config('lock_timeout', '500ms', true);
    EXECUTE format('LOCK TABLE %I IN ACCESS EXCLUSIVE MODE', a_table);
END
$$;
-- +goose StatementEnd

-- webhook_end_table says that a table ends with a whole week, two to three weeks from now: an insert beyond would be
-- refused until the table is a partition. So a run that finds the bound of one that was given up, less than a week off or
-- past, moves it. The tables that are partitioned already are left alone.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION webhook_end_table(a_table text) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    bound uuid := webhook_id_at(to_timestamp(ceil((extract(epoch FROM now()) + 14 * 86400) / 604800) * 604800));
BEGIN
    IF (SELECT relkind FROM pg_class WHERE oid = a_table::regclass) = 'p'
        OR webhook_table_until(a_table) > webhook_id_at(now() + interval '7 days')
    THEN
        RETURN;
    END IF;
    PERFORM webhook_lock_alone(a_table);
    EXECUTE format('ALTER TABLE %I DROP CONSTRAINT IF EXISTS %I, ADD CONSTRAINT %I CHECK (id < %L::uuid) NOT VALID',
        a_table, a_table || '_until', a_table || '_until', bound);
END
$$;
-- +goose StatementEnd

-- webhook_prove_table reads the whole table, once.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION webhook_prove_table(a_table text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF (SELECT relkind FROM pg_class WHERE oid = a_table::regclass) <> 'p' THEN
        PERFORM set_config('lock_timeout', '0', true); -- waiting hurts nobody
        EXECUTE format('ALTER TABLE %I VALIDATE CONSTRAINT %I', a_table, a_table || '_until');
    END IF;
END
$$;
-- +goose StatementEnd

-- +goose StatementBegin
DO $$ BEGIN PERFORM webhook_end_table('webhook_events'); END $$;
-- +goose StatementEnd
-- +goose StatementBegin
DO $$ BEGIN PERFORM webhook_prove_table('webhook_events'); END $$;
-- +goose StatementEnd
-- +goose StatementBegin
DO $$
DECLARE
    bound uuid;
BEGIN
    IF (SELECT relkind FROM pg_class WHERE oid = 'webhook_events'::regclass) = 'p' THEN
        RETURN; -- an earlier run came this far
    END IF;
    PERFORM webhook_lock_alone('webhook_events');
    bound := webhook_table_until('webhook_events');
    ALTER TABLE webhook_events RENAME TO webhook_events_first;
    ALTER INDEX webhook_events_pkey RENAME TO webhook_events_first_pkey;
    CREATE TABLE webhook_events (
        id         uuid PRIMARY KEY,
        kind       text NOT NULL,
        account_id uuid,
        body       bytea NOT NULL,
        created_at timestamptz NOT NULL DEFAULT now()
    ) PARTITION BY RANGE (id);
    EXECUTE format('ALTER TABLE webhook_events ATTACH PARTITION webhook_events_first FOR VALUES FROM (MINVALUE) TO (%L)', bound);
    ALTER TABLE webhook_events_first DROP CONSTRAINT webhook_events_until;
    -- No insert ever fails for want of a partition.
    CREATE TABLE webhook_events_default PARTITION OF webhook_events DEFAULT;
END
$$;
-- +goose StatementEnd

-- +goose StatementBegin
DO $$ BEGIN PERFORM webhook_end_table('webhook_deliveries'); END $$;
-- +goose StatementEnd
-- +goose StatementBegin
DO $$ BEGIN PERFORM webhook_prove_table('webhook_deliveries'); END $$;
-- +goose StatementEnd
-- +goose StatementBegin
DO $$
DECLARE
    bound uuid;
BEGIN
    IF (SELECT relkind FROM pg_class WHERE oid = 'webhook_deliveries'::regclass) = 'p' THEN
        RETURN;
    END IF;
    PERFORM webhook_lock_alone('webhook_deliveries');
    bound := webhook_table_until('webhook_deliveries');
    ALTER TABLE webhook_deliveries RENAME TO webhook_deliveries_first;
    ALTER INDEX webhook_deliveries_pkey RENAME TO webhook_deliveries_first_pkey;
    ALTER INDEX webhook_deliveries_due RENAME TO webhook_deliveries_first_due;
    ALTER INDEX webhook_deliveries_backlog RENAME TO webhook_deliveries_first_backlog;
    ALTER INDEX webhook_deliveries_by_endpoint RENAME TO webhook_deliveries_first_by_endpoint;
    ALTER INDEX webhook_deliveries_by_hand RENAME TO webhook_deliveries_first_by_hand;
    ALTER INDEX webhook_deliveries_repeats RENAME TO webhook_deliveries_first_repeats;
    ALTER INDEX webhook_deliveries_missed RENAME TO webhook_deliveries_first_missed;
    ALTER INDEX webhook_deliveries_again RENAME TO webhook_deliveries_first_again;
    CREATE TABLE webhook_deliveries (
        id              uuid PRIMARY KEY,
        event_id        uuid NOT NULL,
        endpoint_id     uuid NOT NULL,
        state           text NOT NULL DEFAULT 'pending'
            CONSTRAINT webhook_deliveries_state_check CHECK (state IN ('pending', 'delivered', 'failed', 'cancelled')),
        attempt         integer NOT NULL DEFAULT 0,
        next_attempt_at timestamptz NOT NULL DEFAULT now(),
        relay_at        timestamptz NOT NULL DEFAULT now(),
        lease           uuid,
        lease_until     timestamptz,
        last_status     integer,
        last_error      text NOT NULL DEFAULT '',
        created_at      timestamptz NOT NULL DEFAULT now(),
        finished_at     timestamptz,
        lost            integer NOT NULL DEFAULT 0,
        by_hand         boolean NOT NULL DEFAULT false,
        repeats         uuid,
        repeated        boolean NOT NULL DEFAULT false
    ) PARTITION BY RANGE (id);
    CREATE INDEX webhook_deliveries_due ON webhook_deliveries (relay_at) WHERE state = 'pending';
    CREATE INDEX webhook_deliveries_backlog ON webhook_deliveries (endpoint_id, created_at) WHERE state = 'pending';
    CREATE INDEX webhook_deliveries_by_endpoint ON webhook_deliveries (endpoint_id, id DESC);
    CREATE INDEX webhook_deliveries_by_hand ON webhook_deliveries (endpoint_id) WHERE state = 'pending' AND by_hand;
    CREATE INDEX webhook_deliveries_repeats ON webhook_deliveries (repeats) WHERE repeats IS NOT NULL;
    CREATE INDEX webhook_deliveries_missed ON webhook_deliveries (endpoint_id, finished_at, id)
        WHERE state IN ('failed', 'cancelled') AND NOT repeated;
    CREATE INDEX webhook_deliveries_again ON webhook_deliveries (event_id)
        WHERE state = 'pending' AND (by_hand OR repeats IS NOT NULL);
    -- Its indexes become parts of these.
    EXECUTE format('ALTER TABLE webhook_deliveries ATTACH PARTITION webhook_deliveries_first FOR VALUES FROM (MINVALUE) TO (%L)', bound);
    ALTER TABLE webhook_deliveries_first DROP CONSTRAINT webhook_deliveries_until;
    CREATE TABLE webhook_deliveries_default PARTITION OF webhook_deliveries DEFAULT
        WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
END
$$;
-- +goose StatementEnd

DROP FUNCTION webhook_prove_table(text), webhook_end_table(text), webhook_lock_alone(text), webhook_table_until(text);

-- What came of each try: written by the statement that writes the try's outcome to its delivery.
CREATE TABLE IF NOT EXISTS webhook_tries (
    delivery_id uuid NOT NULL,
    -- 1 for the first; where a worker was lost before it told of its try, the row says so (failure worker_lost).
    attempt     integer NOT NULL,
    began_at    timestamptz NOT NULL,
    duration_ms integer NOT NULL,
    -- The HTTP status; NULL when no answer came.
    status      integer,
    -- The class of what went wrong; '' for a delivery.
    failure     text NOT NULL DEFAULT '',
    -- The first bytes of the answer, bounded and cleaned.
    answer      text NOT NULL DEFAULT '',
    PRIMARY KEY (delivery_id, attempt)
) PARTITION BY RANGE (delivery_id);
CREATE TABLE IF NOT EXISTS webhook_tries_default PARTITION OF webhook_tries DEFAULT;
-- +goose StatementBegin
DO $$
BEGIN
    IF to_regclass('webhook_tries_first') IS NULL THEN
        EXECUTE 'CREATE TABLE webhook_tries_first PARTITION OF webhook_tries '
            || (SELECT pg_get_expr(relpartbound, oid) FROM pg_class WHERE oid = 'webhook_deliveries_first'::regclass);
    END IF;
END
$$;
-- +goose StatementEnd
