-- +goose Up
-- Counts an account's live keys, however many it had before: what is revoked is not in it, what has expired stands apart.
CREATE INDEX api_keys_live ON api_keys (account_id, expires_at) WHERE revoked_at IS NULL;
