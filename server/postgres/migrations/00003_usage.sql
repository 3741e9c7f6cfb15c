-- +goose Up
-- Owned by server/keys: how often each key was used on each UTC day.
CREATE TABLE key_usage (
    -- No foreign keys: their row locks would make pods that write usage wait for whoever changes a key. Keys and accounts
    -- are never deleted, and a key never changes its account.
    key_id       uuid NOT NULL,
    day          date NOT NULL,
    account_id   uuid NOT NULL,
    requests     bigint NOT NULL,
    rate_limited bigint NOT NULL,
    -- When the key was last used on that day. Its own row is written once a day only: api_keys.last_used_at says from
    -- which day on to look.
    last_used_at timestamptz,
    PRIMARY KEY (key_id, day)
) WITH (fillfactor = 70); -- each pod adds to a busy key's row once an interval: with room in the page no index is touched
CREATE INDEX key_usage_by_account ON key_usage (account_id, day);

-- One row for each process that counts: the number of the last batch of it that is in key_usage, raised in the statement
-- that adds it. So a batch that is sent again, because nobody knows what became of it, is added once.
CREATE TABLE key_usage_writers (
    id         uuid PRIMARY KEY,
    batch      bigint NOT NULL,
    written_at timestamptz NOT NULL
);

-- When each key was last used. The one place that knows where that is kept.
CREATE VIEW api_key_uses AS
SELECT k.id AS key_id, greatest(k.last_used_at, (
    SELECT u.last_used_at FROM key_usage u
    WHERE u.key_id = k.id AND u.last_used_at IS NOT NULL
      AND u.day >= coalesce((k.last_used_at AT TIME ZONE 'UTC')::date, '-infinity')
    ORDER BY u.day DESC
    LIMIT 1))::timestamptz AS last_used_at
FROM api_keys k;

-- What pods counted and have not yet added to key_usage. A pod writes one row for thousands of keys, which costs next
-- to nothing; what all pods wrote of a share of the keys is added to key_usage together, later and at an even pace
-- (server/keys).
CREATE TABLE key_usage_batches (
    writer       uuid NOT NULL, -- as in key_usage_writers
    batch        bigint NOT NULL,
    share        smallint NOT NULL,
    day          date NOT NULL,
    written_at   timestamptz NOT NULL DEFAULT now(),
    -- Arrays of one length: an element for each key.
    keys         uuid[] NOT NULL,
    requests     bigint[] NOT NULL,
    rate_limited bigint[] NOT NULL,
    last_used    bigint[] NOT NULL, -- µs since 1970; 0 for none
    PRIMARY KEY (writer, batch)
) WITH (
    -- All rows are soon dead, and each look for a share reads the whole table. So vacuum comes by their number alone; and of
    -- a row of more than 2 kB (some fifty keys) all arrays are kept apart, not just as many as make it shorter than that.
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200,
    toast.autovacuum_vacuum_scale_factor = 0, toast.autovacuum_vacuum_threshold = 200,
    toast_tuple_target = 128
);
-- They live for a minute: compressing them would cost more than it saves.
ALTER TABLE key_usage_batches
    ALTER COLUMN keys SET STORAGE EXTERNAL, ALTER COLUMN requests SET STORAGE EXTERNAL,
    ALTER COLUMN rate_limited SET STORAGE EXTERNAL, ALTER COLUMN last_used SET STORAGE EXTERNAL;
