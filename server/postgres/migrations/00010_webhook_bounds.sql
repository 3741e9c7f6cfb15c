-- +goose NO TRANSACTION
-- +goose Up
-- Makes webhook_events and webhook_deliveries ready to become the first partitions of the tables that 00011 puts in their
-- place, while both are written to: all that needs a strong lock is done in a moment, or gives way and is tried again
-- (Migrate); all that takes long takes no lock that a writer minds. Each step may be run again.
SET lock_timeout = '500ms';

-- webhook_id_at is the least id (UUIDv7) of a moment: a range of ids is a range of time.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION webhook_id_at(moment timestamptz) RETURNS uuid
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT (lpad(to_hex(floor(extract(epoch FROM moment) * 1000)::bigint), 12, '0') || repeat('0', 20))::uuid
$$;
-- +goose StatementEnd

-- lost: how many of the tries begun were lost with the worker that began them; they are not held against the delivery.
-- by_hand: asked for by somebody (a test, a redelivery); how many of those may be pending is limited.
-- repeats: the first delivery of the event to this endpoint; NULL for that one itself.
-- repeated: it came to its end before a later delivery of the event was made, and is that one's concern since.
ALTER TABLE webhook_deliveries
    ADD COLUMN IF NOT EXISTS lost integer NOT NULL DEFAULT 0,
    ADD COLUMN IF NOT EXISTS by_hand boolean NOT NULL DEFAULT false,
    ADD COLUMN IF NOT EXISTS repeats uuid,
    ADD COLUMN IF NOT EXISTS repeated boolean NOT NULL DEFAULT false;

-- The first partition ends with a whole week, two to three weeks from now: the migrations have that long to come to their
-- end before an insert would be refused. An earlier run's bound is replaced.
-- +goose StatementBegin
DO $$
DECLARE
    bound uuid := webhook_id_at(to_timestamp(ceil((extract(epoch FROM now()) + 14 * 86400) / 604800) * 604800));
BEGIN
    EXECUTE format('ALTER TABLE webhook_events DROP CONSTRAINT IF EXISTS webhook_events_until,
        ADD CONSTRAINT webhook_events_until CHECK (id < %L::uuid) NOT VALID', bound);
END
$$;
-- +goose StatementEnd
-- +goose StatementBegin
DO $$
DECLARE
    bound uuid := webhook_id_at(to_timestamp(ceil((extract(epoch FROM now()) + 14 * 86400) / 604800) * 604800));
BEGIN
    EXECUTE format('ALTER TABLE webhook_deliveries DROP CONSTRAINT IF EXISTS webhook_deliveries_until,
        ADD CONSTRAINT webhook_deliveries_until CHECK (id < %L::uuid) NOT VALID', bound);
END
$$;
-- +goose StatementEnd

-- From here on waiting hurts nobody.
SET lock_timeout = 0;
ALTER TABLE webhook_events VALIDATE CONSTRAINT webhook_events_until;
ALTER TABLE webhook_deliveries VALIDATE CONSTRAINT webhook_deliveries_until;
DROP INDEX CONCURRENTLY IF EXISTS webhook_deliveries_by_hand;
CREATE INDEX CONCURRENTLY webhook_deliveries_by_hand ON webhook_deliveries (endpoint_id) WHERE state = 'pending' AND by_hand;
DROP INDEX CONCURRENTLY IF EXISTS webhook_deliveries_repeats;
CREATE INDEX CONCURRENTLY webhook_deliveries_repeats ON webhook_deliveries (repeats) WHERE repeats IS NOT NULL;
-- What a recovery looks for; a delivery that arrives is never in it.
DROP INDEX CONCURRENTLY IF EXISTS webhook_deliveries_missed;
CREATE INDEX CONCURRENTLY webhook_deliveries_missed ON webhook_deliveries (endpoint_id, finished_at, id)
    WHERE state IN ('failed', 'cancelled') AND NOT repeated;
SET lock_timeout = '2s'; -- as server/postgres/migrate.go has it
