-- name: AppendRecord :exec
INSERT INTO audit_log (id, account_id, actor_kind, actor, action, target, address, request_id, detail)
VALUES (@id, @account_id, @actor_kind, @actor, @action, @target, sqlc.narg('address'), @request_id, @detail);
