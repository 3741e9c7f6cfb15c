-- +goose Up
-- Owned by server/usage: the requests of each key on each UTC day.
CREATE TABLE key_usage (
    -- No foreign keys: their row locks would make a roll-up wait for changes of keys. Keys and accounts are never deleted,
    -- and a key never changes its account.
    key_id       uuid NOT NULL,
    day          date NOT NULL,
    account_id   uuid NOT NULL,
    requests     bigint NOT NULL,
    rate_limited bigint NOT NULL,
    -- When the key was last used on that day; NULL if all its requests were refused.
    last_used_at timestamptz,
    PRIMARY KEY (key_id, day)
) WITH (fillfactor = 70); -- roll-ups update the row of a busy key often: with room in the page they touch no index
CREATE INDEX key_usage_by_account ON key_usage (account_id, day);

-- One row per process that counts: the number of its last stored batch, raised in the statement that stores the batch. So
-- a batch that is sent again after a lost answer is stored once.
CREATE TABLE key_usage_writers (
    id         uuid PRIMARY KEY,
    batch      bigint NOT NULL,
    written_at timestamptz NOT NULL
);

-- When each key was last used: in its newest row that has a use.
CREATE VIEW api_key_uses AS
SELECT k.id AS key_id, (
    SELECT u.last_used_at FROM key_usage u
    WHERE u.key_id = k.id AND u.last_used_at IS NOT NULL
    ORDER BY u.day DESC
    LIMIT 1)::timestamptz AS last_used_at
FROM api_keys k;

-- Counts that pods have written and no pod has added to key_usage yet. One row holds thousands of keys, so a write is
-- cheap. The batches of all pods are added together (server/usage).
CREATE TABLE key_usage_batches (
    writer       uuid NOT NULL, -- as in key_usage_writers
    batch        bigint NOT NULL,
    day          date NOT NULL,
    written_at   timestamptz NOT NULL DEFAULT now(),
    -- When a roll-up last failed because of this batch. NULL for all others. Roll-ups try it after all others.
    tried_at     timestamptz,
    -- When a roll-up found that this batch cannot be added. NULL for all others.
    skipped_at   timestamptz,
    -- Arrays of one length: an element for each key.
    keys         uuid[] NOT NULL,
    requests     bigint[] NOT NULL,
    rate_limited bigint[] NOT NULL,
    last_used    bigint[] NOT NULL, -- µs since 1970; 0 for none
    PRIMARY KEY (writer, batch)
) WITH (
    -- All rows are soon dead, and each look at the backlog reads the whole table. So vacuum is due by the number of rows
    -- alone, and a row of more than 2 kB (some fifty keys) keeps all its arrays apart.
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200,
    toast.autovacuum_vacuum_scale_factor = 0, toast.autovacuum_vacuum_threshold = 200,
    toast_tuple_target = 128
);
-- The rows live for a minute: compressing them would cost more than it saves.
ALTER TABLE key_usage_batches
    ALTER COLUMN keys SET STORAGE EXTERNAL, ALTER COLUMN requests SET STORAGE EXTERNAL,
    ALTER COLUMN rate_limited SET STORAGE EXTERNAL, ALTER COLUMN last_used SET STORAGE EXTERNAL;
