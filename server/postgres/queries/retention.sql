-- What retention asks for, with the functions of 00008_webhooks.sql.

-- name: DatabaseTime :one
SELECT clock_timestamp()::timestamptz;

-- name: AddPartition :one
SELECT webhook_add_partition(@kind::text, @starts::timestamptz, @ends::timestamptz)::text;

-- name: EndPending :one
SELECT webhook_end_pending(@name::text, @bound::uuid, @most::int)::bigint;

-- name: RetirePartition :one
SELECT webhook_retire_partition(@kind::text, @name::text)::text;

-- name: DropRetired :one
SELECT webhook_drop_retired()::bigint;

-- name: SweepDefault :one
SELECT webhook_sweep_default(@bound::uuid, @most::int)::bigint;
