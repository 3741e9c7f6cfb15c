-- +goose Up
-- Owned by server/sessions: the account of each person who signs in with an OpenID Connect provider.
CREATE TABLE account_identities (
    issuer     text NOT NULL,
    subject    text NOT NULL,
    account_id uuid NOT NULL REFERENCES accounts,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (issuer, subject)
);

-- Signed-in browsers. The cookie's token is stored nowhere.
CREATE TABLE sessions (
    hash         bytea PRIMARY KEY CHECK (octet_length(hash) = 32), -- SHA-256 of the token
    account_id   uuid NOT NULL REFERENCES accounts,
    issuer       text NOT NULL,
    subject      text NOT NULL,
    email        text NOT NULL, -- '' for none
    created_at   timestamptz NOT NULL,
    last_used_at timestamptz NOT NULL, -- up to a minute old
    expires_at   timestamptz NOT NULL  -- however much it is used
);
CREATE INDEX sessions_by_account ON sessions (account_id);
CREATE INDEX sessions_by_expiry ON sessions (expires_at);

-- Sign-ins that were completed, so that none is completed twice.
CREATE TABLE used_sign_ins (
    hash       bytea PRIMARY KEY CHECK (octet_length(hash) = 32), -- SHA-256 of the state
    expires_at timestamptz NOT NULL
);
CREATE INDEX used_sign_ins_by_expiry ON used_sign_ins (expires_at);
