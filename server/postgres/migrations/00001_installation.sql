-- +goose Up
-- One row: the identity of this installation. `examprep migrate` writes it; each process reads it at its start.
CREATE TABLE installation (
    singleton   boolean PRIMARY KEY DEFAULT true CHECK (singleton),
    -- Names in Redis begin with it, so installations can share a Redis.
    id          uuid NOT NULL DEFAULT gen_random_uuid(),
    -- A process of the other environment does not start.
    environment text NOT NULL CHECK (environment IN ('production', 'sandbox')),
    -- Digest of the migration files that made this database. A process with other files does not start.
    migrations  text NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT now(),
    -- When all migrations were applied; NULL while the first run is not finished.
    migrated_at timestamptz
);
