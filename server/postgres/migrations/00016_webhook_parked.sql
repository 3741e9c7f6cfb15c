-- +goose Up
-- Whether a delivery was put off because its receiver's lane was full: whoever has room for it brings it back at once. Until
-- now that was told by how far off its relay_at was, so what nobody had brought back in its first ten seconds came back by
-- itself only.
--
-- A column with a constant is a change of the catalogue alone. Locks are taken as in 00015.
SET LOCAL lock_timeout = '10s';
LOCK TABLE webhook_deliveries IN SHARE UPDATE EXCLUSIVE MODE;
SET LOCAL lock_timeout = '500ms';
ALTER TABLE webhook_deliveries ADD COLUMN IF NOT EXISTS parked boolean NOT NULL DEFAULT false;
