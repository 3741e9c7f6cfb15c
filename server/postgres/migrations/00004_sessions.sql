-- +goose Up
-- Owned by server/accounts: the persons that act for an account. A person is known by the provider's issuer and subject.
CREATE TABLE account_members (
    id         uuid PRIMARY KEY,
    account_id uuid NOT NULL REFERENCES accounts,
    issuer     text NOT NULL CHECK (issuer <> ''),
    subject    text NOT NULL CHECK (subject <> ''),
    email      text NOT NULL, -- that the provider vouched for at the last sign-in, for display; '' for none
    role       text NOT NULL CHECK (role IN ('owner', 'developer', 'viewer')),
    created_at timestamptz NOT NULL,
    created_by text NOT NULL CHECK (created_by <> ''), -- issuer#subject, or user@host of the command line
    chosen_at  timestamptz NOT NULL,                   -- when the person last began to work in the account
    UNIQUE (account_id, issuer, subject)
);
CREATE INDEX account_members_by_person ON account_members (issuer, subject, chosen_at);

-- Owned by server/accounts: roles that are offered to an e-mail address.
CREATE TABLE account_invitations (
    id         uuid PRIMARY KEY,
    account_id uuid NOT NULL REFERENCES accounts,
    email      text NOT NULL CHECK (email <> ''), -- ASCII, without capital letters
    role       text NOT NULL CHECK (role IN ('owner', 'developer', 'viewer')),
    created_at timestamptz NOT NULL,
    created_by text NOT NULL CHECK (created_by <> ''), -- as of a member
    expires_at timestamptz NOT NULL,
    UNIQUE (account_id, email)
);
CREATE INDEX account_invitations_by_email ON account_invitations (email);

-- Owned by server/sessions.
-- Signed-in browsers. The cookie's token is stored nowhere.
CREATE TABLE sessions (
    hash         bytea PRIMARY KEY CHECK (octet_length(hash) = 32), -- SHA-256 of the token
    account_id   uuid, -- the one that the person works in; NULL for none yet
    issuer       text NOT NULL,
    subject      text NOT NULL,
    email        text NOT NULL, -- that the provider vouches for; '' for none
    created_at   timestamptz NOT NULL,
    last_used_at timestamptz NOT NULL, -- up to a minute old
    expires_at   timestamptz NOT NULL, -- however much it is used
    -- A person that is a member no more has no session in the account.
    FOREIGN KEY (account_id, issuer, subject) REFERENCES account_members (account_id, issuer, subject) ON DELETE CASCADE
);
CREATE INDEX sessions_by_person ON sessions (issuer, subject, created_at);
CREATE INDEX sessions_by_expiry ON sessions (expires_at, hash);

-- Sign-ins that were completed, so that none is completed twice.
CREATE TABLE used_sign_ins (
    hash       bytea PRIMARY KEY CHECK (octet_length(hash) = 32), -- SHA-256 of the state
    expires_at timestamptz NOT NULL
);
CREATE INDEX used_sign_ins_by_expiry ON used_sign_ins (expires_at, hash);
