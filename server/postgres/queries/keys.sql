-- name: ShareTierLock :exec
-- Held by whoever creates a key or gives it a tier, so that a change of tiers, which lists the keys that it concerns,
-- misses none; and by whoever raises those.
SELECT pg_advisory_xact_lock_shared(hashtextextended('examprep.rate_tiers', 0));

-- name: TakeTierLock :exec
-- Held by whoever changes a tier.
SELECT pg_advisory_xact_lock(hashtextextended('examprep.rate_tiers', 0));

-- name: EnsureAccount :one
-- The account of that name, created if there is none. The no-op update makes RETURNING answer in both cases.
INSERT INTO accounts (id, name) VALUES ($1, $2)
ON CONFLICT (name) DO UPDATE SET name = excluded.name
RETURNING id;

-- name: LockAccount :exec
-- Whoever adds a key to an account waits for the others that do (EnsureAccount takes the same lock), so that none slips
-- past a limit.
SELECT FROM accounts WHERE id = $1 FOR NO KEY UPDATE;

-- name: CountLiveKeys :one
-- Of an account's keys those that are neither revoked nor expired; rotated counts those of them that have a successor.
-- Two ranges of one index.
SELECT count(*) AS live, count(*) FILTER (WHERE live.rotated) AS rotated
FROM (SELECT k.rotated_at IS NOT NULL AS rotated FROM api_keys k
      WHERE k.account_id = $1 AND k.revoked_at IS NULL AND k.expires_at IS NULL
      UNION ALL
      SELECT k.rotated_at IS NOT NULL FROM api_keys k
      WHERE k.account_id = $1 AND k.revoked_at IS NULL AND k.expires_at > now()) live;

-- name: InsertKey :one
INSERT INTO api_keys (id, account_id, family_id, prefix, hash, name, tier, expires_at)
VALUES ($1, $2, $3, $4, $5, $6, sqlc.narg('tier'), sqlc.narg('expires_at'))
RETURNING created_at;

-- name: KeyFamily :one
SELECT family_id FROM api_keys WHERE prefix = $1 AND account_id = $2;

-- name: EffectiveTier :one
SELECT tier FROM api_key_records WHERE id = $1;

-- name: LockKey :one
SELECT k.id, k.account_id, a.name AS account, k.family_id, k.name, k.tier, k.expires_at, k.revoked_at, k.rotated_at,
       coalesce(k.expires_at <= now(), false)::boolean AS expired
FROM api_keys k JOIN accounts a ON a.id = k.account_id
WHERE k.prefix = $1
FOR UPDATE OF k;

-- name: RevokeKey :one
-- Revoking twice changes nothing the second time, and announces the same version again.
UPDATE api_keys SET version    = CASE WHEN revoked_at IS NULL THEN version + 1 ELSE version END,
                    revoked_at = coalesce(revoked_at, now())
WHERE prefix = $1
RETURNING id;

-- name: RetireKey :exec
-- The end of a rotated key: never later than it was.
UPDATE api_keys SET version = version + 1, rotated_at = now(),
                    expires_at = least(expires_at, now() + sqlc.arg('overlap')::bigint * interval '1 microsecond')
WHERE id = $1;

-- name: SetKeyTier :one
UPDATE api_keys SET version = version + 1, tier = sqlc.narg('tier') WHERE prefix = $1 RETURNING id;

-- name: ListKeys :many
SELECT k.id, k.prefix, k.name, a.name AS account, r.tier, k.created_at, k.expires_at, k.revoked_at, u.last_used_at
FROM api_keys k
JOIN accounts a ON a.id = k.account_id
JOIN api_key_records r ON r.id = k.id
LEFT JOIN api_key_uses u ON u.key_id = k.id -- it has every key; sqlc takes what is joined LEFT for nullable
WHERE sqlc.arg('account')::text = '' OR a.name = sqlc.arg('account')::text
ORDER BY k.created_at DESC, k.id DESC;

-- name: KeyPosition :one
SELECT created_at, id FROM api_keys WHERE prefix = $1 AND account_id = $2;

-- name: PageOfKeys :many
-- From before a position on; without one from the newest on.
SELECT k.id, k.prefix, k.name, a.name AS account, r.tier, k.created_at, k.expires_at, k.revoked_at, u.last_used_at
FROM (SELECT p.id, p.account_id, p.prefix, p.name, p.created_at, p.expires_at, p.revoked_at FROM api_keys p
      WHERE p.account_id = sqlc.arg('account')
        AND (p.created_at, p.id) < (coalesce(sqlc.narg('before')::timestamptz, 'infinity'), sqlc.arg('before_id')::uuid)
      ORDER BY p.created_at DESC, p.id DESC
      LIMIT sqlc.arg('page')) k
JOIN accounts a ON a.id = k.account_id
JOIN api_key_records r ON r.id = k.id
LEFT JOIN api_key_uses u ON u.key_id = k.id -- it has every key; sqlc takes what is joined LEFT for nullable
ORDER BY k.created_at DESC, k.id DESC;

-- name: GetKey :one
SELECT k.id, k.prefix, k.name, a.name AS account, r.tier, k.created_at, k.expires_at, k.revoked_at, u.last_used_at
FROM api_keys k
JOIN accounts a ON a.id = k.account_id
JOIN api_key_records r ON r.id = k.id
LEFT JOIN api_key_uses u ON u.key_id = k.id -- it has every key; sqlc takes what is joined LEFT for nullable
WHERE k.prefix = $1;

-- name: RecordByID :one
SELECT * FROM api_key_records WHERE id = $1;

-- name: RecordsByIDs :many
SELECT * FROM api_key_records WHERE id = ANY (sqlc.arg('ids')::uuid[]);

-- name: RecordsByHash :many
SELECT * FROM api_key_records WHERE hash = ANY (sqlc.arg('hashes')::bytea[]);

-- name: PendingRecords :many
SELECT * FROM api_key_records
WHERE announced_version < version AND id > sqlc.arg('after')
ORDER BY id
LIMIT sqlc.arg('count');

-- name: MarkAnnounced :exec
-- Nobody is waited for: a key that is being changed or marked by another stays as it is, and is announced again.
WITH free AS (
    SELECT k.id, u.version
    FROM (SELECT unnest(sqlc.arg('ids')::uuid[]) AS id, unnest(sqlc.arg('versions')::bigint[]) AS version) u
    JOIN api_keys k ON k.id = u.id
    WHERE k.announced_version < u.version
    FOR NO KEY UPDATE OF k SKIP LOCKED
)
UPDATE api_keys k SET announced_version = free.version FROM free WHERE k.id = free.id AND k.announced_version < free.version;

-- name: ListKeysOnTier :exec
-- Puts every key to which the tier applies at this moment on the list of those to raise; but not those that are over: to
-- announce them would leave a tombstone in Redis for every key that ever was. Whoever empties the list waits for the tier
-- lock, so what is on it already stays until this transaction is over.
INSERT INTO key_raises (key_id)
SELECT r.id FROM api_key_records r JOIN api_keys k ON k.id = r.id
WHERE r.tier = $1 AND k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > now())
ON CONFLICT DO NOTHING;

-- name: RaiseListedKeys :many
-- Raises the listed keys of a range of ids that nobody else holds, takes them off the list, and tells the whole range: by
-- index alone, whatever the planner believes about a list that was empty a moment ago.
WITH span AS (
    SELECT l.key_id FROM key_raises l WHERE l.key_id > sqlc.arg('after') ORDER BY l.key_id LIMIT sqlc.arg('most')
), free AS (
    SELECT k.id FROM api_keys k WHERE k.id = ANY (ARRAY(SELECT s.key_id FROM span s))
    ORDER BY k.id
    FOR NO KEY UPDATE SKIP LOCKED
), raised AS (
    UPDATE api_keys k SET version = k.version + 1 WHERE k.id = ANY (ARRAY(SELECT f.id FROM free f))
), taken AS (
    DELETE FROM key_raises l WHERE l.key_id = ANY (ARRAY(SELECT f.id FROM free f))
)
SELECT s.key_id, EXISTS (SELECT FROM free f WHERE f.id = s.key_id) AS raised FROM span s ORDER BY s.key_id;

-- name: TryRaiseLock :one
-- Held by whoever raises listed keys, until they are announced. Its transaction does nothing else meanwhile, which the
-- server is not to end it for.
SELECT pg_try_advisory_xact_lock(hashtextextended('examprep.key_raises', 0)) AS mine
FROM set_config('idle_in_transaction_session_timeout', '0', true);

-- name: GetTier :one
SELECT * FROM rate_tiers WHERE name = $1;

-- name: TierInEffect :one
-- A tier, and whether some key (perhaps one of it) is yet to be raised, or not known to have been announced.
SELECT sqlc.embed(t), (EXISTS (SELECT FROM api_keys k WHERE k.announced_version < k.version)
    OR EXISTS (SELECT FROM key_raises))::boolean AS pending
FROM rate_tiers t
WHERE t.name = $1;

-- name: ListTiers :many
SELECT * FROM rate_tiers ORDER BY name;

-- name: PutTier :exec
INSERT INTO rate_tiers (name, requests, period_us, burst, key_prefixes, accounts, managed_by)
VALUES ($1, $2, $3, $4, $5, $6, sqlc.narg('managed_by'))
ON CONFLICT (name) DO UPDATE SET requests = excluded.requests, period_us = excluded.period_us, burst = excluded.burst,
    key_prefixes = excluded.key_prefixes, accounts = excluded.accounts, managed_by = excluded.managed_by,
    updated_at = now();

-- name: UnassignTier :exec
UPDATE api_keys SET tier = NULL WHERE tier = $1;

-- name: DeleteTier :exec
DELETE FROM rate_tiers WHERE name = $1;

-- name: LastTerm :one
SELECT term, server,
       (confirmed_at > clock_timestamp() - make_interval(secs => 5))::boolean AS alive,
       (confirmed_at < clock_timestamp() - make_interval(secs => 1))::boolean AS due,
       (extract(epoch FROM clock_timestamp() - started_at) * 1000000)::bigint AS age_us
FROM gate_terms
ORDER BY term DESC
LIMIT 1;

-- name: ServerHadTerm :one
-- Whether a server had a term. That somebody asks keeps the row from being forgotten.
WITH asked AS (
    UPDATE gate_terms u SET confirmed_at = clock_timestamp()
    WHERE u.server = $1 AND u.confirmed_at < clock_timestamp() - interval '1 hour'
)
SELECT EXISTS (SELECT FROM gate_terms g WHERE g.server = $1);

-- name: ConfirmTerm :exec
UPDATE gate_terms SET confirmed_at = clock_timestamp() WHERE term = $1;

-- name: StartTerm :execrows
-- Nothing is inserted when another process started that term first. Terms about which nobody has asked for so long are
-- forgotten; that of the greatest number stays in any case, it is this one.
WITH forgotten AS (
    DELETE FROM gate_terms d
    WHERE d.term < sqlc.arg('term') AND d.confirmed_at < clock_timestamp() - sqlc.arg('keep_us')::bigint * interval '1 microsecond'
)
INSERT INTO gate_terms (term, server) VALUES (sqlc.arg('term'), sqlc.arg('server')) ON CONFLICT DO NOTHING;

-- name: NewestKeyChange :one
SELECT coalesce(max(number), 0)::bigint FROM key_changes;

-- name: TiersForDirectory :many
-- All tiers with the accounts that they name. Names of accounts are unknown to pods.
SELECT t.name, t.requests, t.period_us, t.burst,
       ARRAY(SELECT p.prefix FROM unnest(t.key_prefixes) p (prefix) WHERE p.prefix IS NOT NULL)::text[] AS key_prefixes,
       ARRAY(SELECT a.id FROM accounts a WHERE a.name = ANY (t.accounts))::uuid[] AS account_ids
FROM rate_tiers t
ORDER BY t.name;

-- name: RegisterPod :exec
INSERT INTO api_pods (id, applied) VALUES ($1, $2)
ON CONFLICT (id) DO UPDATE SET applied = excluded.applied, told = 0, renewals = api_pods.renewals + 1, lost_at = NULL;

-- name: RenewLease :one
-- Renews the lease of a pod that is registered and whose number is known, and returns later changes, at most so many.
WITH renewed AS (
    UPDATE api_pods p SET applied = sqlc.arg('applied'), told = sqlc.arg('told'), renewals = p.renewals + 1, lost_at = NULL
    WHERE p.id = sqlc.arg('id') AND EXISTS (SELECT FROM key_changes k WHERE k.number = sqlc.arg('applied'))
    RETURNING p.id
)
SELECT EXISTS (SELECT FROM renewed)::boolean AS renewed,
       EXISTS (SELECT FROM api_pods p WHERE p.id = sqlc.arg('id'))::boolean AS registered,
       (SELECT count(*) FROM api_pods p WHERE p.lost_at IS NULL)::int AS pods,
       clock_timestamp()::timestamptz AS now,
       ARRAY(SELECT k.number FROM key_changes k WHERE k.number > sqlc.arg('applied') ORDER BY k.number LIMIT sqlc.arg('most'))::bigint[] AS numbers,
       ARRAY(SELECT coalesce(k.hash, '') FROM key_changes k WHERE k.number > sqlc.arg('applied') ORDER BY k.number LIMIT sqlc.arg('most'))::bytea[] AS hashes;

-- name: DeregisterPod :exec
DELETE FROM api_pods WHERE id = $1;

-- name: AddEmptyKeyChange :exec
SELECT add_key_change(NULL, sqlc.arg('above')::bigint);

-- name: PruneKeyChanges :exec
-- An hour of changes is kept, and the newest. Rows of pods that were lost 25 hours ago go: such a pod refuses every key.
WITH pods AS (DELETE FROM api_pods WHERE lost_at < now() - interval '25 hours')
DELETE FROM key_changes k
WHERE k.number < (extract(epoch FROM now() - interval '1 hour') * 1000000)::bigint
  AND k.number < (SELECT max(newest.number) FROM key_changes newest);

-- name: PodsApplied :many
-- The newest number and all pods, in one snapshot. Without pods: one row with a null id.
SELECT newest.number, p.id, p.applied, p.told, p.renewals, (p.lost_at IS NOT NULL)::boolean AS lost
FROM (SELECT coalesce(max(k.number), 0)::bigint AS number FROM key_changes k) newest LEFT JOIN api_pods p ON true;

-- name: MarkPodsLost :exec
-- Marks pods that have not renewed since they had so many renewals, and have not applied the change.
UPDATE api_pods p SET lost_at = now()
FROM (SELECT unnest(sqlc.arg('ids')::uuid[]) AS id, unnest(sqlc.arg('renewals')::bigint[]) AS renewals) silent
WHERE p.id = silent.id AND p.renewals = silent.renewals AND p.applied < sqlc.arg('number') AND p.lost_at IS NULL;
