-- +goose NO TRANSACTION
-- +goose Up
-- Makes webhook_deliveries ready to become the first partition of the table that 00011 puts in its place, while it is
-- written to: all that needs a strong lock is done in a moment, or gives way and is tried again (Migrate); all that takes
-- long takes no lock that a writer minds. Each step may be run again.

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
--
-- One transaction. The first lock is one that no reader or writer waits for, but a vacuum at work minds it: PostgreSQL
-- cancels an autovacuum for who has waited as long as deadlock_timeout (1 s), never for who gives up before. So the strong
-- lock, which everybody waits behind, may be given up soon.
-- +goose StatementBegin
SET LOCAL lock_timeout = '10s';
LOCK TABLE webhook_deliveries IN SHARE UPDATE EXCLUSIVE MODE;
SET LOCAL lock_timeout = '500ms';
ALTER TABLE webhook_deliveries
    ADD COLUMN IF NOT EXISTS lost integer NOT NULL DEFAULT 0,
    ADD COLUMN IF NOT EXISTS by_hand boolean NOT NULL DEFAULT false,
    ADD COLUMN IF NOT EXISTS repeats uuid,
    ADD COLUMN IF NOT EXISTS repeated boolean NOT NULL DEFAULT false;
-- +goose StatementEnd

-- From here on waiting hurts nobody.
SET lock_timeout = 0;
DROP INDEX CONCURRENTLY IF EXISTS webhook_deliveries_by_hand;
CREATE INDEX CONCURRENTLY webhook_deliveries_by_hand ON webhook_deliveries (endpoint_id) WHERE state = 'pending' AND by_hand;
DROP INDEX CONCURRENTLY IF EXISTS webhook_deliveries_repeats;
CREATE INDEX CONCURRENTLY webhook_deliveries_repeats ON webhook_deliveries (repeats) WHERE repeats IS NOT NULL;
-- What a recovery looks for; a delivery that arrives is never in it.
DROP INDEX CONCURRENTLY IF EXISTS webhook_deliveries_missed;
CREATE INDEX CONCURRENTLY webhook_deliveries_missed ON webhook_deliveries (endpoint_id, finished_at, id)
    WHERE state IN ('failed', 'cancelled') AND NOT repeated;
-- What retention looks for under a lock: an old event that is being sent once more.
DROP INDEX CONCURRENTLY IF EXISTS webhook_deliveries_again;
CREATE INDEX CONCURRENTLY webhook_deliveries_again ON webhook_deliveries (event_id)
    WHERE state = 'pending' AND (by_hand OR repeats IS NOT NULL);
SET lock_timeout = '2s'; -- as server/postgres/migrate.go has it
