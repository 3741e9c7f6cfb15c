-- +goose Up
-- Owned by server/sessions: which account a person who signs in with an OpenID Connect provider belongs to.
CREATE TABLE account_identities (
    issuer     text NOT NULL,
    subject    text NOT NULL,
    account_id uuid NOT NULL REFERENCES accounts,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (issuer, subject)
);
