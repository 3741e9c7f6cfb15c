-- Accounts, their members and invitations.

-- name: EnsureAccount :one
-- The account of that name, created if there is none. The no-op update makes RETURNING answer in both cases.
INSERT INTO accounts (id, name) VALUES ($1, $2)
ON CONFLICT (name) DO UPDATE SET name = excluded.name
RETURNING id;

-- name: AddAccount :execrows
-- Inserts nothing if the name is taken.
INSERT INTO accounts (id, name, key_limit) VALUES ($1, $2, $3) ON CONFLICT (name) DO NOTHING;

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
WHERE m.issuer = $1 AND m.subject = $2
ORDER BY m.chosen_at DESC, m.id;

-- name: ChooseMembership :execrows
UPDATE account_members SET chosen_at = @now WHERE account_id = @account_id AND issuer = @issuer AND subject = @subject;

-- name: SetEmail :exec
UPDATE account_members SET email = $3 WHERE issuer = $1 AND subject = $2 AND email <> $3;

-- name: Members :many
SELECT id, issuer, subject, email, role, created_at, created_by FROM account_members WHERE account_id = $1 ORDER BY created_at, id;

-- name: MemberOf :one
SELECT id, role FROM account_members WHERE account_id = $1 AND issuer = $2 AND subject = $3;

-- name: InsertMember :execrows
-- Inserts nothing if the person is a member.
INSERT INTO account_members (id, account_id, issuer, subject, email, role, created_at, created_by, chosen_at)
VALUES (@id, @account_id, @issuer, @subject, @email, @role, @now, @created_by, @now)
ON CONFLICT (account_id, issuer, subject) DO NOTHING;

-- name: SetRole :exec
UPDATE account_members SET role = $2 WHERE id = $1;

-- name: DeleteMember :exec
-- The foreign key of sessions ends the person's sessions in the account.
DELETE FROM account_members WHERE id = $1;

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
