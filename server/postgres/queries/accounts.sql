-- Accounts, their members and invitations.

-- name: EnsureAccount :one
-- The account of that name, created if there is none. The no-op update makes RETURNING answer in both cases.
INSERT INTO accounts (id, name) VALUES ($1, $2)
ON CONFLICT (name) DO UPDATE SET name = excluded.name
RETURNING id;

-- name: AddPersonalAccount :execrows
-- Inserts an account with the first free name of @name, @name-2 … @name-1000. Inserts nothing if another transaction takes that name at
-- the same time, or if none is free.
WITH RECURSIVE names AS (
    SELECT 1 AS n, @name::text AS name
    UNION ALL
    SELECT n + 1, @name::text || '-' || (n + 1)::text FROM names
    WHERE n < 1000 AND EXISTS (SELECT FROM accounts a WHERE a.name = names.name)
)
INSERT INTO accounts (id, name, key_limit, creator_issuer, creator_subject)
SELECT @id::uuid, name, @key_limit::integer, @issuer::text, @subject::text FROM names ORDER BY n DESC LIMIT 1
ON CONFLICT (name) DO NOTHING;

-- name: AccountsCreatedBy :many
-- The accounts that a person created, the newest first.
SELECT a.id, (a.vacated AND NOT EXISTS (SELECT FROM account_members m WHERE m.account_id = a.id))::boolean AS vacant
FROM accounts a WHERE a.creator_issuer = @issuer::text AND a.creator_subject = @subject::text
ORDER BY a.created_at DESC, a.id DESC LIMIT @page;

-- name: AccountNamed :one
SELECT id FROM accounts WHERE name = $1;

-- name: LockAccount :one
-- Changes of an account's members wait for each other.
SELECT name FROM accounts WHERE id = $1 FOR NO KEY UPDATE;

-- name: SetKeyLimit :exec
UPDATE accounts SET key_limit = $2 WHERE id = $1;

-- name: PageOfAccounts :many
-- Accounts in the order of their names, after one.
SELECT a.id, a.name, a.created_at, a.key_limit,
       (SELECT count(*) FROM account_members m WHERE m.account_id = a.id) AS members,
       (SELECT count(*) FROM account_invitations i WHERE i.account_id = a.id AND i.expires_at > @now) AS invitations
FROM accounts a WHERE a.name > @after ORDER BY a.name LIMIT @page;

-- name: LockPerson :exec
-- Sign-ins of one person wait for each other, so the first creates one account.
SELECT pg_advisory_xact_lock(hashtextextended('examprep.person ' || @person::text, 0));

-- name: MembershipsOf :many
-- The accounts of a person, the last that the person chose first.
SELECT m.id, m.account_id, a.name AS account, m.role
FROM account_members m JOIN accounts a ON a.id = m.account_id
WHERE m.issuer = @issuer AND m.subject = @subject
ORDER BY m.chosen_at DESC, m.id LIMIT @page;

-- name: ChooseMembership :execrows
UPDATE account_members SET chosen_at = @now WHERE account_id = @account_id AND issuer = @issuer AND subject = @subject;

-- name: SetEmail :exec
UPDATE account_members SET email = $3 WHERE issuer = $1 AND subject = $2 AND email <> $3;

-- name: Members :many
SELECT id, issuer, subject, email, role, created_at, created_by FROM account_members WHERE account_id = $1 ORDER BY created_at, id;

-- name: MemberOf :one
SELECT id, role FROM account_members WHERE account_id = $1 AND issuer = $2 AND subject = $3;

-- name: InsertMember :execrows
-- Inserts nothing if the person is a member of @most accounts or more.
INSERT INTO account_members (id, account_id, issuer, subject, email, role, created_at, created_by, chosen_at)
SELECT @id::uuid, @account_id::uuid, @issuer::text, @subject::text, @email::text, @role::text, @now::timestamptz, @created_by::text, @now
WHERE (SELECT count(*) FROM account_members m WHERE m.issuer = @issuer AND m.subject = @subject) < @most::integer;

-- name: SetRole :exec
UPDATE account_members SET role = $2 WHERE id = $1;

-- name: DeleteMember :exec
-- The foreign key of sessions ends the person's sessions in the account. The account of a last member is vacated if the member leaves
-- it and has created it.
WITH gone AS (DELETE FROM account_members WHERE account_members.id = @id RETURNING account_id, issuer, subject)
UPDATE accounts a SET vacated = coalesce(@leaves::boolean AND a.creator_issuer = gone.issuer AND a.creator_subject = gone.subject, false)
FROM gone WHERE a.id = gone.account_id
  AND NOT EXISTS (SELECT FROM account_members m WHERE m.account_id = gone.account_id AND m.id <> @id);

-- name: InvitationsOf :many
SELECT id, email, role, created_at, created_by, expires_at FROM account_invitations WHERE account_id = $1 ORDER BY created_at, id;

-- name: InsertInvitation :exec
INSERT INTO account_invitations (id, account_id, email, role, created_at, created_by, expires_at)
VALUES (@id, @account_id, @email, @role, @now, @created_by, @expires_at);

-- name: DeleteInvitations :exec
DELETE FROM account_invitations WHERE id = ANY (@ids::uuid[]);

-- name: InvitationsFor :many
-- The open invitations of an address.
SELECT i.id, i.account_id, a.name AS account, i.role, i.created_by, i.created_at, i.expires_at,
       coalesce((SELECT m.email FROM account_members m
                 WHERE m.account_id = i.account_id AND m.issuer || '#' || m.subject = i.created_by), '')::text AS inviter
FROM account_invitations i JOIN accounts a ON a.id = i.account_id
WHERE i.email = @email AND i.expires_at > @now
ORDER BY i.created_at, i.id LIMIT @page;

-- name: InvitationFor :one
-- The account of an open invitation of the address.
SELECT account_id FROM account_invitations WHERE id = @id AND email = @email AND expires_at > @now;
