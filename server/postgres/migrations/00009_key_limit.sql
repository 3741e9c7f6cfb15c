-- +goose NO TRANSACTION
-- +goose Up
-- Counts an account's live keys, however many it had before: what is revoked is not in it, what has expired stands apart.
-- Keys are made and changed meanwhile. That it may wait long for older transactions hurts nobody, so it does; what a
-- failure left behind, an index that is not valid, goes first.
SET lock_timeout = 0;
DROP INDEX CONCURRENTLY IF EXISTS api_keys_live;
CREATE INDEX CONCURRENTLY api_keys_live ON api_keys (account_id, expires_at) WHERE revoked_at IS NULL;
SET lock_timeout = '2s'; -- as server/postgres/migrate.go has it
