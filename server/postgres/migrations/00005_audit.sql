-- +goose Up
-- Owned by server/audit: what persons did to accounts, keys, webhooks and sessions. Rows are only ever added.
CREATE TABLE audit_log (
    -- UUIDv7: the order of ids is the order of time.
    id         uuid PRIMARY KEY,
    at         timestamptz NOT NULL DEFAULT now(),
    -- Whose things the action was on. No foreign key: the record outlives what it tells of. NULL for a session of a person who had no
    -- account yet.
    account_id uuid CHECK (account_id IS NOT NULL OR action LIKE 'session.%'),
    actor_kind text NOT NULL CHECK (actor_kind IN ('developer', 'administrator')),
    -- A developer is issuer#subject, an administrator user@host of the command line.
    actor      text NOT NULL CHECK (actor <> ''),
    action     text NOT NULL CHECK (action <> ''),
    -- A key prefix or the id of a webhook, member or invitation; '' where the action is on the account or on sessions.
    target     text NOT NULL,
    -- From where: the client's address. NULL for the command line, and where the peer has none (a Unix socket).
    address    inet,
    -- The x-request-id of the answer; '' for the command line.
    request_id text NOT NULL,
    detail     jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(detail) = 'object')
);
CREATE INDEX audit_log_by_account ON audit_log (account_id, id);
-- For a member's list of one action.
CREATE INDEX audit_log_by_action ON audit_log (account_id, action, id);
CREATE INDEX audit_log_by_time ON audit_log (at);

-- +goose StatementBegin
CREATE FUNCTION audit_log_refuse_change() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'audit_log is append-only: % is refused', TG_OP
        USING ERRCODE = 'insufficient_privilege',
              HINT = 'docs/operations.md shows how to delete old records.';
END
$$;
-- +goose StatementEnd

-- For each statement, so that also one that would touch no row is refused; always, so that a session that poses as a
-- replica (session_replication_role) is refused as well. It binds the table's owner and superusers like everybody else.
CREATE TRIGGER audit_log_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_log
    FOR EACH STATEMENT EXECUTE FUNCTION audit_log_refuse_change();
ALTER TABLE audit_log ENABLE ALWAYS TRIGGER audit_log_append_only;
