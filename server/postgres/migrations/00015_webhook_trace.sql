-- +goose Up
-- Which trace an event belongs to, as the W3C header traceparent says it, so that its delivery shows in the trace of the
-- request that caused it; NULL where that was not recorded, which is nearly always. The value comes from a setting of the
-- transaction (server/postgres/trace.go), by way of the default: who records events need not know.
--
-- A column without a value is a change of the catalogue alone. The first lock is one that no reader or writer waits for,
-- but a vacuum at work minds it (00010 has the whole story); the strong one gives way soon, and is tried again (Migrate).
SET LOCAL lock_timeout = '10s';
LOCK TABLE webhook_events IN SHARE UPDATE EXCLUSIVE MODE;
SET LOCAL lock_timeout = '500ms';
ALTER TABLE webhook_events ADD COLUMN IF NOT EXISTS traceparent text;
ALTER TABLE webhook_events ALTER COLUMN traceparent SET DEFAULT nullif(current_setting('examprep.traceparent', true), '');
