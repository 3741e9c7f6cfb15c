-- name: LockAccount :one
-- Transactions that add a key to an account wait for each other, so no key exceeds a limit.
SELECT name, key_limit FROM accounts WHERE id = $1 FOR NO KEY UPDATE;

-- name: CountActiveKeys :one
-- The number of an account's keys that are neither revoked nor expired, or only of those that have a successor. Two ranges
-- of one index.
SELECT count(*) FILTER (WHERE live.rotated OR NOT sqlc.arg('rotated_only')::boolean)
FROM (SELECT k.rotated_at IS NOT NULL AS rotated FROM api_keys k
      WHERE k.account_id = $1 AND k.revoked_at IS NULL AND k.expires_at IS NULL
      UNION ALL
      SELECT k.rotated_at IS NOT NULL FROM api_keys k
      WHERE k.account_id = $1 AND k.revoked_at IS NULL AND k.expires_at > now()) live;

-- name: ExpiringKeys :many
-- The active keys of an account that expire within some seconds, the next first, without those that have a successor.
SELECT k.prefix, k.name, k.expires_at, u.last_used_at
FROM (SELECT x.id, x.prefix, x.name, x.expires_at FROM api_keys x
      WHERE x.account_id = sqlc.arg('account') AND x.revoked_at IS NULL AND x.rotated_at IS NULL
        AND x.expires_at > now() AND x.expires_at <= now() + make_interval(secs => sqlc.arg('seconds')::float8)
      ORDER BY x.expires_at, x.id LIMIT sqlc.arg('most')) k
LEFT JOIN api_key_uses u ON u.key_id = k.id
ORDER BY k.expires_at, k.id;

-- name: InsertKey :one
-- No row: another key has the prefix.
INSERT INTO api_keys (id, account_id, family_id, prefix, hash, name, tier, expires_at)
VALUES ($1, $2, $3, $4, $5, $6, sqlc.narg('tier'), sqlc.narg('expires_at'))
ON CONFLICT (prefix) DO NOTHING
RETURNING created_at;

-- name: LockKey :one
SELECT k.id, k.account_id, a.name AS account, k.family_id, k.name, k.tier, k.expires_at, k.revoked_at, k.rotated_at,
       coalesce(k.expires_at <= now(), false)::boolean AS expired
FROM api_keys k JOIN accounts a ON a.id = k.account_id
WHERE k.prefix = $1
FOR UPDATE OF k;

-- name: RevokeKey :exec
UPDATE api_keys SET revoked_at = now() WHERE prefix = $1;

-- name: RetireKey :exec
-- The end of a rotated key: never later than it was.
UPDATE api_keys SET rotated_at = now(),
                    expires_at = least(expires_at, now() + sqlc.arg('overlap')::bigint * interval '1 microsecond')
WHERE id = $1;

-- name: SetKeyTier :exec
UPDATE api_keys SET tier = sqlc.narg('tier') WHERE prefix = $1;

-- name: PageOfKeys :many
-- An account's keys from before a position on; without one from the newest on.
SELECT k.id, k.prefix, k.name, a.id AS account_id, a.name AS account, k.tier, k.created_at, k.expires_at, k.revoked_at, u.last_used_at
FROM (SELECT p.id, p.account_id, p.prefix, p.name, p.tier, p.created_at, p.expires_at, p.revoked_at FROM api_keys p
      WHERE p.account_id = sqlc.arg('account')
        AND (p.created_at, p.id) < (coalesce(sqlc.narg('before')::timestamptz, 'infinity'), sqlc.arg('before_id')::uuid)
      ORDER BY p.created_at DESC, p.id DESC
      LIMIT sqlc.arg('page')) k
JOIN accounts a ON a.id = k.account_id
LEFT JOIN api_key_uses u ON u.key_id = k.id -- the view has every key; LEFT makes the column nullable for sqlc
ORDER BY k.created_at DESC, k.id DESC;

-- name: PageOfAllKeys :many
-- The same of all accounts.
SELECT k.id, k.prefix, k.name, a.id AS account_id, a.name AS account, k.tier, k.created_at, k.expires_at, k.revoked_at, u.last_used_at
FROM (SELECT p.id, p.account_id, p.prefix, p.name, p.tier, p.created_at, p.expires_at, p.revoked_at FROM api_keys p
      WHERE (p.created_at, p.id) < (coalesce(sqlc.narg('before')::timestamptz, 'infinity'), sqlc.arg('before_id')::uuid)
      ORDER BY p.created_at DESC, p.id DESC
      LIMIT sqlc.arg('page')) k
JOIN accounts a ON a.id = k.account_id
LEFT JOIN api_key_uses u ON u.key_id = k.id
ORDER BY k.created_at DESC, k.id DESC;

-- name: AccountNamed :one
SELECT id FROM accounts WHERE name = $1;

-- name: KeyOfAccount :one
SELECT id, family_id, created_at FROM api_keys WHERE prefix = $1 AND account_id = $2;

-- name: CommitSynchronously :exec
-- A change that was confirmed must survive a crash of the server.
SELECT set_config('synchronous_commit', 'on', true) WHERE current_setting('synchronous_commit') = 'off';

-- name: LockTier :one
-- Returns the tier's manager, and locks the tier.
SELECT managed_by FROM rate_tiers WHERE name = $1 FOR UPDATE;

-- name: PutTier :execrows
-- Lists are sorted, without repetitions. No row: another manager owns the tier, or nothing changes.
INSERT INTO rate_tiers (name, requests, period_seconds, burst, key_prefixes, accounts, managed_by)
VALUES ($1, $2, $3, $4,
        ARRAY(SELECT DISTINCT p COLLATE "C" FROM unnest(sqlc.arg('key_prefixes')::text[]) p ORDER BY 1),
        ARRAY(SELECT DISTINCT a COLLATE "C" FROM unnest(sqlc.arg('accounts')::text[]) a ORDER BY 1), sqlc.narg('managed_by'))
ON CONFLICT (name) DO UPDATE SET requests = excluded.requests, period_seconds = excluded.period_seconds, burst = excluded.burst,
    key_prefixes = excluded.key_prefixes, accounts = excluded.accounts, managed_by = excluded.managed_by,
    updated_at = now()
WHERE (rate_tiers.managed_by IS NULL OR rate_tiers.managed_by = sqlc.narg('manager'))
  AND (rate_tiers.requests, rate_tiers.period_seconds, rate_tiers.burst, rate_tiers.key_prefixes, rate_tiers.accounts, rate_tiers.managed_by)
      IS DISTINCT FROM (excluded.requests, excluded.period_seconds, excluded.burst, excluded.key_prefixes, excluded.accounts, excluded.managed_by);

-- name: DeleteTier :exec
DELETE FROM rate_tiers WHERE name = $1;

-- name: NewestKeyChange :one
SELECT coalesce(max(number), 0)::bigint FROM key_changes;

-- name: TiersForDirectory :many
-- All tiers with the accounts that they name. Names of accounts are unknown to pods.
SELECT t.name, t.requests, t.period_seconds, t.burst,
       ARRAY(SELECT p.prefix FROM unnest(t.key_prefixes) p (prefix) WHERE p.prefix IS NOT NULL)::text[] AS key_prefixes,
       ARRAY(SELECT a.id FROM accounts a WHERE a.name = ANY (t.accounts))::uuid[] AS account_ids
FROM rate_tiers t
ORDER BY t.name;

-- name: RegisterPod :exec
INSERT INTO api_pods (id, applied, used, budget) VALUES ($1, $2, $3, $4)
ON CONFLICT (id) DO UPDATE SET applied = excluded.applied, told = 0, renewals = api_pods.renewals + 1, lost_at = NULL,
    renewed_at = excluded.renewed_at, used = excluded.used;

-- name: RenewLease :one
-- Renews the lease of a pod that is registered, not lost, and whose number is known, and returns later changes, at most so
-- many. pods counts the pod and the others that renewed in the last silent_us microseconds. Authors do not wait for a lost
-- pod, so this statement, whose snapshot can be older than a change, must not revive one.
WITH renewed AS (
    UPDATE api_pods p SET applied = sqlc.arg('applied'), told = sqlc.arg('told'), renewals = p.renewals + 1,
        renewed_at = clock_timestamp(), used = sqlc.arg('used')
    WHERE p.id = sqlc.arg('id') AND p.lost_at IS NULL AND EXISTS (SELECT FROM key_changes k WHERE k.number = sqlc.arg('applied'))
    RETURNING p.id
)
SELECT EXISTS (SELECT FROM renewed)::boolean AS renewed,
       EXISTS (SELECT FROM api_pods p WHERE p.id = sqlc.arg('id'))::boolean AS registered,
       EXISTS (SELECT FROM api_pods p WHERE p.id = sqlc.arg('id') AND p.lost_at IS NOT NULL)::boolean AS lost,
       (SELECT 1 + count(*) FROM api_pods p WHERE p.id <> sqlc.arg('id') AND p.lost_at IS NULL
            AND p.renewed_at > clock_timestamp() - sqlc.arg('silent_us')::bigint * interval '1 microsecond')::int AS pods,
       clock_timestamp()::timestamptz AS now,
       ARRAY(SELECT k.number FROM key_changes k WHERE k.number > sqlc.arg('applied') ORDER BY k.number LIMIT sqlc.arg('most'))::bigint[] AS numbers,
       ARRAY(SELECT coalesce(k.hash, '') FROM key_changes k WHERE k.number > sqlc.arg('applied') ORDER BY k.number LIMIT sqlc.arg('most'))::bytea[] AS hashes;

-- name: DeregisterPod :exec
DELETE FROM api_pods WHERE id = $1;

-- name: AddEmptyKeyChange :execrows
-- No row, and no change: the number is more than a day ahead of the time. Such a number would remain, since numbers only rise.
SELECT add_key_change(NULL, sqlc.arg('above')::bigint)
WHERE sqlc.arg('above')::bigint <= (extract(epoch FROM clock_timestamp() + interval '1 day') * 1000000)::bigint;

-- name: OldKeyChanges :many
-- The next changes that are older than an hour, without the newest of all.
SELECT o.number FROM key_changes o
WHERE o.number > sqlc.arg('after') AND o.number < (extract(epoch FROM now() - interval '1 hour') * 1000000)::bigint
  AND o.number < (SELECT max(newest.number) FROM key_changes newest)
ORDER BY o.number LIMIT sqlc.arg('most');

-- name: DropKeyChanges :exec
-- Skips locked rows: another pod deletes them.
DELETE FROM key_changes k WHERE k.number IN (
    SELECT o.number FROM key_changes o WHERE o.number = ANY (sqlc.arg('numbers')::bigint[]) ORDER BY o.number FOR UPDATE SKIP LOCKED);

-- name: LongLostPods :many
-- Pods that were lost 25 hours ago. Such a pod refuses every key.
SELECT id FROM api_pods WHERE lost_at < now() - interval '25 hours';

-- name: DropLostPods :exec
DELETE FROM api_pods p WHERE p.id IN (
    SELECT o.id FROM api_pods o WHERE o.id = ANY (sqlc.arg('ids')::uuid[]) AND o.lost_at IS NOT NULL FOR UPDATE SKIP LOCKED);

-- name: PodsApplied :many
-- All pods, each with the newest number, in one snapshot. Without a pod there is one row, whose id is zero. Rows of a standby can be
-- old.
SELECT server.standby, (SELECT coalesce(max(k.number), 0) FROM key_changes k)::bigint AS newest,
       coalesce(p.id, '00000000-0000-0000-0000-000000000000')::uuid AS id, coalesce(p.applied, 0)::bigint AS applied,
       coalesce(p.told, 0)::bigint AS told, coalesce(p.renewals, 0)::bigint AS renewals, (p.lost_at IS NOT NULL)::boolean AS lost
FROM (SELECT pg_is_in_recovery() AS standby) server LEFT JOIN api_pods p ON true;

-- name: DirectoryRoom :one
-- The largest directory of keys of the pods that renew, and their smallest limit, in bytes. Zeros without a pod.
SELECT coalesce(max(p.used), 0)::bigint AS used, coalesce(min(p.budget), 0)::bigint AS budget
FROM api_pods p
WHERE p.lost_at IS NULL AND p.budget > 0 AND p.renewed_at > clock_timestamp() - interval '1 minute';

-- name: MarkPodsLost :exec
-- Marks pods that have not renewed since they had so many renewals, and have not applied the change.
UPDATE api_pods p SET lost_at = now()
FROM (SELECT unnest(sqlc.arg('ids')::uuid[]) AS id, unnest(sqlc.arg('renewals')::bigint[]) AS renewals) silent
WHERE p.id = silent.id AND p.renewals = silent.renewals AND p.applied < sqlc.arg('number') AND p.lost_at IS NULL;
