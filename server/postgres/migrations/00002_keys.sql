-- +goose Up
-- Owned by server/keys.
CREATE TABLE rate_tiers (
    name           text PRIMARY KEY CHECK (name <> ''),
    requests       integer NOT NULL CHECK (requests > 0),
    period_seconds integer NOT NULL CHECK (period_seconds > 0),
    burst          integer NOT NULL CHECK (burst > 0),
    -- Assignment by resource: a key whose own tier is NULL takes the tier that names its prefix, else its account.
    key_prefixes   text[] NOT NULL DEFAULT '{}',
    accounts       text[] NOT NULL DEFAULT '{}',
    managed_by     text,
    updated_at     timestamptz NOT NULL DEFAULT now()
);
INSERT INTO rate_tiers (name, requests, period_seconds, burst) VALUES ('default', 120, 60, 120);

-- Owned by server/accounts.
CREATE TABLE accounts (
    id         uuid PRIMARY KEY,
    -- In NFC and without a blank at its ends, so that texts that look the same are one account.
    name       text NOT NULL UNIQUE CHECK (name <> '' AND name IS NFC NORMALIZED
               AND name !~ '^[\s\u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]'
               AND name !~ '[\s\u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]$'),
    -- How many active keys its members can create.
    key_limit  integer NOT NULL DEFAULT 1000 CHECK (key_limit >= 0),
    created_at timestamptz NOT NULL DEFAULT now(),
    -- The person whose sign-in made the account, as in account_members. NULL for an account that an administrator made.
    creator_issuer  text CHECK (creator_issuer <> ''),
    creator_subject text CHECK (creator_subject <> ''),
    -- The creator has left the account as its last member. Then the creator's next sign-in enters it again.
    vacated    boolean NOT NULL DEFAULT false,
    CHECK ((creator_issuer IS NULL) = (creator_subject IS NULL))
);
CREATE INDEX accounts_by_creator ON accounts (creator_issuer, creator_subject) WHERE creator_issuer IS NOT NULL;

CREATE TABLE api_keys (
    id           uuid PRIMARY KEY,
    account_id   uuid NOT NULL REFERENCES accounts,
    -- The id of the first key of a rotation chain: attempts belong to the family, so a rotated key inherits them.
    family_id    uuid NOT NULL,
    prefix       text NOT NULL UNIQUE,
    hash         bytea NOT NULL UNIQUE CHECK (octet_length(hash) = 32),
    name         text NOT NULL DEFAULT '',
    -- No foreign key: deleting a tier must not write its keys. A key whose tier does not exist has no tier of its own.
    tier         text,
    created_at   timestamptz NOT NULL DEFAULT now(),
    expires_at   timestamptz,
    revoked_at   timestamptz,
    -- When a successor was issued. A key has one at most; its expires_at is then the end of the overlap.
    rotated_at   timestamptz
);
CREATE INDEX api_keys_by_account ON api_keys (account_id, created_at DESC);
-- For an administrator's list.
CREATE INDEX api_keys_by_age ON api_keys (created_at DESC, id DESC);
-- For an administrator's statements. No process reads keys by tier.
CREATE INDEX api_keys_by_tier ON api_keys (tier) WHERE tier IS NOT NULL;
-- Counts the active keys of an account. Revoked keys are not in it; the reader leaves out those that have expired.
CREATE INDEX api_keys_live ON api_keys (account_id, expires_at) WHERE revoked_at IS NULL;

-- Changes that API pods must apply to their directories of keys, numbered in the order of their commits. server/keys/directory
-- has the protocol. Rows are kept for an hour, the newest row always.
CREATE TABLE key_changes (
    -- Below 2^53: scripts in Redis compare numbers as doubles.
    number bigint PRIMARY KEY CHECK (number < 9007199254740992),
    -- SHA-256 of the key that changed. NULL: a tier or the name of an account, or nothing.
    hash   bytea
);

-- A number is the time in microseconds, at least one more than the last. So a number does not come back after a fail-over or a
-- restore. A sequence, since max() + 1 would repeat numbers of lost commits.
CREATE SEQUENCE key_change_numbers MAXVALUE 9007199254740991;

-- +goose StatementBegin
CREATE FUNCTION add_key_change(changed bytea, above bigint DEFAULT 0) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    given bigint;
BEGIN
    -- Held until the commit: numbers are in commit order.
    PERFORM pg_advisory_xact_lock(hashtextextended('examprep.key_changes', 0));
    given := setval('key_change_numbers', greatest(nextval('key_change_numbers'), above + 1,
        (extract(epoch FROM clock_timestamp()) * 1000000)::bigint));
    INSERT INTO key_changes (number, hash) VALUES (given, changed);
    PERFORM pg_notify('examprep_keys', '');
    RETURN given;
END
$$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION record_key_change() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    IF TG_TABLE_NAME <> 'api_keys' THEN
        PERFORM add_key_change(NULL);
        RETURN NULL;
    END IF;
    IF TG_OP <> 'INSERT' THEN
        PERFORM add_key_change(OLD.hash);
    END IF;
    IF TG_OP = 'INSERT' OR (TG_OP = 'UPDATE' AND NEW.hash <> OLD.hash) THEN
        PERFORM add_key_change(NEW.hash);
    END IF;
    RETURN NULL;
END
$$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION refuse_truncate() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'API pods would not notice TRUNCATE of %: use DELETE', TG_TABLE_NAME USING ERRCODE = 'insufficient_privilege';
END
$$;
-- +goose StatementEnd

-- Each row that a statement changes is a change that every API pod must apply. A pod has no lease until it has applied all.
-- +goose StatementBegin
CREATE FUNCTION refuse_bulk_change() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    IF current_setting('examprep.bulk_changes', true) IS DISTINCT FROM 'on'
        AND (SELECT count(*) FROM (SELECT FROM changed LIMIT 1001) c) > 1000 THEN
        RAISE EXCEPTION 'a statement must not change more than 1000 rows of %, since API pods refuse keys while they catch up: '
            'change fewer in each transaction, or run SET LOCAL examprep.bulk_changes = on in the same transaction',
            TG_TABLE_NAME USING ERRCODE = 'program_limit_exceeded';
    END IF;
    RETURN NULL;
END
$$;
-- +goose StatementEnd

-- Deferred: they run at commit, so no client holds the lock while it waits, and nothing is locked after it. Always: a
-- session that acts as a replica (session_replication_role) is covered too.
CREATE CONSTRAINT TRIGGER api_keys_changed AFTER INSERT OR DELETE ON api_keys
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION record_key_change();
CREATE CONSTRAINT TRIGGER api_keys_updated AFTER UPDATE ON api_keys
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN ((OLD.id, OLD.account_id, OLD.family_id, OLD.prefix, OLD.hash, OLD.tier, OLD.expires_at, OLD.revoked_at)
        IS DISTINCT FROM (NEW.id, NEW.account_id, NEW.family_id, NEW.prefix, NEW.hash, NEW.tier, NEW.expires_at, NEW.revoked_at))
    EXECUTE FUNCTION record_key_change();
CREATE CONSTRAINT TRIGGER rate_tiers_changed AFTER INSERT OR UPDATE OR DELETE ON rate_tiers
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION record_key_change();
CREATE CONSTRAINT TRIGGER accounts_changed AFTER INSERT OR DELETE ON accounts
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION record_key_change();
CREATE CONSTRAINT TRIGGER accounts_renamed AFTER UPDATE ON accounts
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN ((OLD.id, OLD.name) IS DISTINCT FROM (NEW.id, NEW.name))
    EXECUTE FUNCTION record_key_change();
CREATE TRIGGER api_keys_truncated BEFORE TRUNCATE ON api_keys EXECUTE FUNCTION refuse_truncate();
CREATE TRIGGER rate_tiers_truncated BEFORE TRUNCATE ON rate_tiers EXECUTE FUNCTION refuse_truncate();
CREATE TRIGGER accounts_truncated BEFORE TRUNCATE ON accounts EXECUTE FUNCTION refuse_truncate();
CREATE TRIGGER key_changes_truncated BEFORE TRUNCATE ON key_changes EXECUTE FUNCTION refuse_truncate();
-- PostgreSQL allows one event for a trigger with a transition table.
CREATE TRIGGER api_keys_bulk_insert AFTER INSERT ON api_keys
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION refuse_bulk_change();
CREATE TRIGGER api_keys_bulk_update AFTER UPDATE ON api_keys
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION refuse_bulk_change();
CREATE TRIGGER api_keys_bulk_delete AFTER DELETE ON api_keys
    REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION refuse_bulk_change();
CREATE TRIGGER accounts_bulk_insert AFTER INSERT ON accounts
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION refuse_bulk_change();
CREATE TRIGGER accounts_bulk_update AFTER UPDATE ON accounts
    REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION refuse_bulk_change();
CREATE TRIGGER accounts_bulk_delete AFTER DELETE ON accounts
    REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION refuse_bulk_change();
ALTER TABLE api_keys ENABLE ALWAYS TRIGGER api_keys_changed;
ALTER TABLE api_keys ENABLE ALWAYS TRIGGER api_keys_updated;
ALTER TABLE api_keys ENABLE ALWAYS TRIGGER api_keys_truncated;
ALTER TABLE api_keys ENABLE ALWAYS TRIGGER api_keys_bulk_insert;
ALTER TABLE api_keys ENABLE ALWAYS TRIGGER api_keys_bulk_update;
ALTER TABLE api_keys ENABLE ALWAYS TRIGGER api_keys_bulk_delete;
ALTER TABLE rate_tiers ENABLE ALWAYS TRIGGER rate_tiers_changed;
ALTER TABLE rate_tiers ENABLE ALWAYS TRIGGER rate_tiers_truncated;
ALTER TABLE accounts ENABLE ALWAYS TRIGGER accounts_changed;
ALTER TABLE accounts ENABLE ALWAYS TRIGGER accounts_renamed;
ALTER TABLE accounts ENABLE ALWAYS TRIGGER accounts_truncated;
ALTER TABLE accounts ENABLE ALWAYS TRIGGER accounts_bulk_insert;
ALTER TABLE accounts ENABLE ALWAYS TRIGGER accounts_bulk_update;
ALTER TABLE accounts ENABLE ALWAYS TRIGGER accounts_bulk_delete;
ALTER TABLE key_changes ENABLE ALWAYS TRIGGER key_changes_truncated;
SELECT add_key_change(NULL); -- a directory needs a number to begin with

-- API pods with a directory of keys.
CREATE TABLE api_pods (
    id       uuid PRIMARY KEY,
    -- The number of the newest change in the pod's directory.
    applied  bigint NOT NULL,
    -- The number that Redis has confirmed to the pod, 0 for none.
    told     bigint NOT NULL DEFAULT 0,
    -- How often the pod renewed its lease. A row whose count stands still is silent.
    renewals bigint NOT NULL DEFAULT 0,
    -- When an author of a change found the pod silent. NULL again with the pod's next renewal.
    lost_at  timestamptz,
    -- When the pod last renewed, by PostgreSQL's clock, which can step: only what tolerates that reads it. That is a pod's share of
    -- the rate limits and the room for new keys. No lease and no author of a change depends on it.
    renewed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- The memory of the pod's directory and its limit, in bytes.
    used     bigint NOT NULL DEFAULT 0,
    budget   bigint NOT NULL DEFAULT 0
);
