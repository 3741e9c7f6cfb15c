-- +goose Up
-- Owned by server/keys.
CREATE TABLE rate_tiers (
    name         text PRIMARY KEY CHECK (name <> ''),
    requests     integer NOT NULL CHECK (requests > 0),
    period_us    bigint  NOT NULL CHECK (period_us > 0),
    burst        integer NOT NULL CHECK (burst > 0),
    -- Assignment by resource: a key whose own tier is NULL takes the tier that names its prefix, else its account.
    key_prefixes text[] NOT NULL DEFAULT '{}',
    accounts     text[] NOT NULL DEFAULT '{}',
    managed_by   text,
    updated_at   timestamptz NOT NULL DEFAULT now()
);
INSERT INTO rate_tiers (name, requests, period_us, burst) VALUES ('default', 120, 60000000, 120);

CREATE TABLE accounts (
    id         uuid PRIMARY KEY,
    name       text NOT NULL UNIQUE CHECK (name <> ''),
    created_at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE api_keys (
    id           uuid PRIMARY KEY,
    account_id   uuid NOT NULL REFERENCES accounts,
    -- The id of the first key of a rotation chain: attempts belong to the family, so a rotated key inherits them.
    family_id    uuid NOT NULL,
    prefix       text NOT NULL UNIQUE,
    hash         bytea NOT NULL UNIQUE CHECK (octet_length(hash) = 32),
    name         text NOT NULL DEFAULT '',
    tier         text REFERENCES rate_tiers,
    -- Raised by every change that the gate must see; the Redis record with the higher version wins.
    version      bigint NOT NULL DEFAULT 1,
    created_at   timestamptz NOT NULL DEFAULT now(),
    expires_at   timestamptz,
    revoked_at   timestamptz,
    last_used_at timestamptz
);
CREATE INDEX api_keys_by_account ON api_keys (account_id, created_at DESC);
