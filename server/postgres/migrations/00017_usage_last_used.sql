-- +goose Up
-- When a key was last used on a day stands beside its counts, which are written at the same time. Its own row, which had to
-- be found, locked and written besides at every flush, is written once a day: api_keys.last_used_at says from which day on
-- to look. A pod of an earlier release, during an upgrade or after a rollback, shows of such a key only that.
--
-- A column without a value is a change of the catalogue alone. Locks are taken as in 00015.
SET LOCAL lock_timeout = '10s';
LOCK TABLE key_usage IN SHARE UPDATE EXCLUSIVE MODE;
SET LOCAL lock_timeout = '500ms';
ALTER TABLE key_usage ADD COLUMN IF NOT EXISTS last_used_at timestamptz;

-- When each key was last used. The one place that knows where that is kept.
CREATE VIEW api_key_uses AS
SELECT k.id AS key_id, greatest(k.last_used_at, (
    SELECT u.last_used_at FROM key_usage u
    WHERE u.key_id = k.id AND u.last_used_at IS NOT NULL
      AND u.day >= coalesce((k.last_used_at AT TIME ZONE 'UTC')::date, '-infinity')
    ORDER BY u.day DESC
    LIMIT 1))::timestamptz AS last_used_at
FROM api_keys k;
