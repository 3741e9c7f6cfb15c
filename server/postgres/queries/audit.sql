-- name: AppendRecord :exec
INSERT INTO audit_log (id, account_id, actor_kind, actor, action, target, address, request_id, detail)
VALUES (@id, sqlc.narg('account_id'), @actor_kind, @actor, @action, @target, sqlc.narg('address'), @request_id, @detail);

-- name: PageOfRecords :many
-- An account's records from before an id on, the newest first.
SELECT id, at, actor_kind, actor, action, target, request_id FROM audit_log
WHERE account_id = @account_id::uuid AND id < @before
ORDER BY id DESC LIMIT @page;

-- name: PageOfAction :many
-- The same of one action.
SELECT id, at, actor_kind, actor, action, target, request_id FROM audit_log
WHERE account_id = @account_id::uuid AND action = @action AND id < @before
ORDER BY id DESC LIMIT @page;
