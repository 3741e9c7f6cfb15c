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
    -- The version that Redis is known to have been told of. A row where it lags is announced by whichever process sees
    -- it first, so that a change survives the death of the process that made it. A new key needs no announcing.
    announced_version bigint NOT NULL DEFAULT 1,
    created_at   timestamptz NOT NULL DEFAULT now(),
    expires_at   timestamptz,
    revoked_at   timestamptz,
    -- When a successor was issued. A key has one at most; its expires_at is then the end of the overlap.
    rotated_at   timestamptz
);
CREATE INDEX api_keys_by_account ON api_keys (account_id, created_at DESC);
-- Counts the live keys of an account. Revoked keys are not in it; the reader leaves out those that have expired.
CREATE INDEX api_keys_live ON api_keys (account_id, expires_at) WHERE revoked_at IS NULL;
CREATE INDEX api_keys_unannounced ON api_keys (id) WHERE announced_version < version;

-- A key as the gate sees it, with the tier that applies. The one rule for overlaps: the key's own tier, else the tier
-- that names its prefix, else the tier that names its account, else default; among several, the first by name.
-- Expired counts as revoked here: expiry is never moved later, and this clock is the one all pods share.
CREATE VIEW api_key_records AS
SELECT k.id, k.family_id, k.account_id, k.hash, k.prefix, k.version, k.announced_version,
       coalesce(k.revoked_at IS NOT NULL OR k.expires_at <= now(), false)::boolean AS revoked, k.expires_at,
       t.name AS tier, t.requests, t.period_us, t.burst
FROM api_keys k
JOIN accounts a ON a.id = k.account_id
JOIN rate_tiers t ON t.name = coalesce(
    k.tier,
    (SELECT min(p.name) FROM rate_tiers p WHERE k.prefix = ANY (p.key_prefixes)),
    (SELECT min(c.name) FROM rate_tiers c WHERE a.name = ANY (c.accounts)),
    'default');

-- Which Redis server the gates agree on. A new term begins whenever a process finds another server than that of the
-- last term; what Redis says of a key counts only if it was verified in the current term. Terms are few: one per
-- restart or fail-over of Redis.
CREATE TABLE gate_terms (
    term         bigint PRIMARY KEY,
    server       text NOT NULL,
    started_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    confirmed_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX gate_terms_by_server ON gate_terms (server);

-- Keys to which a tier change may give another allowance, and whose version has yet to be raised for
-- it. Written with the change in one transaction, emptied by chunks after it: a change of a tier of a million keys locks
-- none of them for longer than a chunk, and loses none if the process dies between. No foreign key: it would lock the keys.
CREATE TABLE key_raises (
    key_id uuid PRIMARY KEY
);
