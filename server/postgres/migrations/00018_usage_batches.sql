-- +goose Up
-- What pods counted and have not yet added to key_usage. A pod writes one row for thousands of keys, which costs next
-- to nothing; what all pods wrote of a share of the keys is added to key_usage together, later and at an even pace
-- (server/keys). A pod of an earlier release adds to key_usage itself; after a rollback to one, these rows wait.
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
);
-- They live for a minute: compressing them would cost more than it saves.
ALTER TABLE key_usage_batches
    ALTER COLUMN keys SET STORAGE EXTERNAL, ALTER COLUMN requests SET STORAGE EXTERNAL,
    ALTER COLUMN rate_limited SET STORAGE EXTERNAL, ALTER COLUMN last_used SET STORAGE EXTERNAL;
