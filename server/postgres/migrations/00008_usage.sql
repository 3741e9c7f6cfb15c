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
