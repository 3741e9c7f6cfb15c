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
