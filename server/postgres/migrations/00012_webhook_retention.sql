-- +goose Up
-- What retention does to partitions (server/webhooks/retention.go calls it). All of it waits only for a moment for a lock
-- that others wait behind. Who does not get it tries again later; nothing is urgent here.

-- The partitions of events, deliveries and tries: ids from lower (NULL: from the least) to before upper; the default
-- partition, which takes what no other does, has neither.
-- +goose StatementBegin
DO $$
BEGIN -- out of sight of sqlc, which does not know pg_inherits
    CREATE VIEW webhook_partitions AS
    SELECT substring(p.relname FROM '^webhook_(.*)$')::text AS kind, c.relname::text AS name,
        substring(pg_get_expr(c.relpartbound, c.oid) FROM 'FROM \(''([0-9a-f-]{36})''\)')::uuid AS lower,
        substring(pg_get_expr(c.relpartbound, c.oid) FROM 'TO \(''([0-9a-f-]{36})''\)')::uuid AS upper
    FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid JOIN pg_class p ON p.oid = i.inhparent
    WHERE i.inhparent IN ('webhook_events'::regclass, 'webhook_deliveries'::regclass, 'webhook_tries'::regclass);
END
$$;
-- +goose StatementEnd

-- webhook_one_keeper lets one worker at a time work on partitions, to the end of its transaction.
-- +goose StatementBegin
CREATE FUNCTION webhook_one_keeper() RETURNS boolean
LANGUAGE sql VOLATILE AS $$
    SELECT pg_try_advisory_xact_lock(hashtextextended('webhook_partitions', 0))
$$;
-- +goose StatementEnd

-- webhook_disturb_vacuum comes before a strong lock on a table. What it locks no reader or writer waits for, but a vacuum at
-- work minds it: PostgreSQL cancels an autovacuum for who has waited as long as deadlock_timeout (1 s), never for who gives
-- up before, as the strong lock does.
-- +goose StatementBegin
CREATE FUNCTION webhook_disturb_vacuum(a_table text) RETURNS void
LANGUAGE plpgsql SET lock_timeout = '10s' AS $$
BEGIN
    EXECUTE format('LOCK TABLE ONLY %I IN SHARE UPDATE EXCLUSIVE MODE', a_table);
END
$$;
-- +goose StatementEnd

-- webhook_add_partition makes the partition of a kind from one moment to another, and says 'added'; 'busy', where a part of
-- that time has one, or another worker is at it; 'crowded', where the default partition holds more of the time than can
-- move along under a lock: it stays there. The table is made by itself and attached: that leaves the others to their
-- readers and writers, but for the default partition.
-- +goose StatementBegin
CREATE FUNCTION webhook_add_partition(a_kind text, a_start timestamptz, an_end timestamptz) RETURNS text
LANGUAGE plpgsql SET lock_timeout = '200ms' AS $$
DECLARE
    least uuid := webhook_id_at(a_start);
    bound uuid := webhook_id_at(an_end);
    parent text := 'webhook_' || a_kind;
    fallback text := parent || '_default';
    child text := parent || '_' || to_char(a_start AT TIME ZONE 'UTC', 'YYYYMMDD');
    key text := CASE a_kind WHEN 'tries' THEN 'delivery_id' ELSE 'id' END;
    storage text := CASE a_kind WHEN 'deliveries'
        THEN 'WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0)' ELSE '' END;
    crowd text;
    crowded boolean;
BEGIN
    IF NOT webhook_one_keeper() OR EXISTS (
        SELECT FROM webhook_partitions p WHERE p.kind = a_kind AND p.upper > least AND (p.lower IS NULL OR p.lower < bound))
    THEN
        RETURN 'busy';
    END IF;
    crowd := format('SELECT count(*) > 10000 FROM (SELECT FROM %I WHERE %I >= %L AND %I < %L LIMIT 10001) s',
        fallback, key, least, key, bound);
    EXECUTE crowd INTO crowded;
    IF crowded THEN
        RETURN 'crowded';
    END IF;
    EXECUTE format('CREATE TABLE %I (LIKE %I INCLUDING DEFAULTS INCLUDING CONSTRAINTS) %s', child, parent, storage);
    PERFORM webhook_disturb_vacuum(fallback);
    -- An insert that was on its way to the default partition already would be refused there. So those of a week that has
    -- begun (nearly: clocks differ) are kept out; of one to come there are none.
    EXECUTE format('LOCK TABLE ONLY %I IN %s MODE', parent, CASE WHEN a_start < clock_timestamp() + interval '1 day'
        THEN 'SHARE ROW EXCLUSIVE' ELSE 'SHARE UPDATE EXCLUSIVE' END);
    EXECUTE format('LOCK TABLE %I IN ACCESS EXCLUSIVE MODE', fallback);
    EXECUTE crowd INTO crowded;
    IF crowded THEN
        EXECUTE format('DROP TABLE %I', child);
        RETURN 'crowded';
    END IF;
    EXECUTE format('WITH strays AS (DELETE FROM %I WHERE %I >= %L AND %I < %L RETURNING *) INSERT INTO %I SELECT * FROM strays',
        fallback, key, least, key, bound, child);
    EXECUTE format('ALTER TABLE %I ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', parent, child, least, bound);
    RETURN 'added';
END
$$;
-- +goose StatementEnd

-- webhook_end_pending fails what is pending in a partition of deliveries with ids before a bound, most rows, and says how
-- many it failed: only what workers have looked at lately and nobody has in hand. So one that can never be sent (its
-- secret's key is lost) ends, but none that waits for workers that were away.
-- +goose StatementBegin
CREATE FUNCTION webhook_end_pending(a_name text, bound uuid, most integer) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    ended bigint;
BEGIN
    IF NOT webhook_one_keeper()
        OR NOT EXISTS (SELECT FROM webhook_partitions p WHERE p.kind = 'deliveries' AND p.name = a_name)
    THEN
        RETURN 0;
    END IF;
    EXECUTE format('UPDATE %I SET state = ''failed'', lease = NULL, lease_until = NULL, finished_at = now(),
            last_error = CASE WHEN last_error = '''' THEN ''cancelled'' ELSE last_error END
        WHERE id = ANY (ARRAY(
            SELECT d.id FROM %I d
            WHERE d.state = ''pending'' AND d.id < $1 AND d.relay_at > now() - interval ''1 hour''
              AND (d.lease_until IS NULL OR d.lease_until <= now())
            LIMIT $2 FOR UPDATE SKIP LOCKED))', a_name, a_name) USING bound, most;
    GET DIAGNOSTICS ended = ROW_COUNT;
    RETURN ended;
END
$$;
-- +goose StatementEnd

-- webhook_retire_partition detaches a partition, renames it for webhook_drop_retired, and says 'retired'. It stays as long as
-- deliveries need it: 'pending', where it holds one or the event of one; 'needed', where deliveries of its time are kept
-- still; 'busy', while another worker is at it. A partition is never detached CONCURRENTLY, for PostgreSQL does not beside a
-- default partition: the lock on the whole table is held for the moment that it takes.
-- +goose StatementBegin
CREATE FUNCTION webhook_retire_partition(a_kind text, a_name text) RETURNS text
LANGUAGE plpgsql SET lock_timeout = '200ms' AS $$
DECLARE
    parent text := 'webhook_' || a_kind;
    old webhook_partitions;
    pending boolean;
BEGIN
    IF NOT webhook_one_keeper() THEN
        RETURN 'busy';
    END IF;
    SELECT * INTO old FROM webhook_partitions p WHERE p.kind = a_kind AND p.name = a_name AND p.upper IS NOT NULL;
    IF NOT FOUND THEN
        RETURN 'busy'; -- it was at it
    END IF;
    IF a_kind <> 'deliveries' AND EXISTS (
        SELECT FROM webhook_partitions p
        WHERE p.kind = 'deliveries' AND p.upper > coalesce(old.lower, '00000000-0000-0000-0000-000000000000')
          AND (p.lower IS NULL OR p.lower < old.upper))
    THEN
        RETURN 'needed';
    END IF;
    IF a_kind = 'deliveries' THEN
        EXECUTE format('SELECT EXISTS (SELECT FROM %I WHERE state = ''pending'')', a_name) INTO pending;
    ELSIF a_kind = 'events' THEN
        pending := EXISTS (
            SELECT FROM webhook_deliveries d
            WHERE d.state = 'pending' AND d.event_id < old.upper AND (old.lower IS NULL OR d.event_id >= old.lower));
    END IF;
    IF pending THEN
        RETURN 'pending';
    END IF;
    PERFORM webhook_disturb_vacuum(a_name), webhook_disturb_vacuum(parent || '_default');
    EXECUTE format('LOCK TABLE ONLY %I IN ACCESS EXCLUSIVE MODE', parent);
    -- Meanwhile somebody may have had an old event sent once more. There is an index of just these.
    IF a_kind = 'events' AND EXISTS (
        SELECT FROM webhook_deliveries d
        WHERE d.state = 'pending' AND (d.by_hand OR d.repeats IS NOT NULL)
          AND d.event_id < old.upper AND d.event_id >= coalesce(old.lower, '00000000-0000-0000-0000-000000000000'))
    THEN
        RETURN 'pending';
    END IF;
    EXECUTE format('ALTER TABLE %I DETACH PARTITION %I', parent, a_name);
    EXECUTE format('ALTER TABLE %I RENAME TO %I', a_name, a_name || '_retired');
    RETURN 'retired';
END
$$;
-- +goose StatementEnd

-- webhook_drop_retired drops the tables that webhook_retire_partition detached, and says how many. What somebody else has
-- detached, or not attached yet, is no concern of it.
-- +goose StatementBegin
CREATE FUNCTION webhook_drop_retired() RETURNS bigint
LANGUAGE plpgsql SET lock_timeout = '200ms' AS $$
DECLARE
    retired text;
    dropped bigint := 0;
BEGIN
    IF NOT webhook_one_keeper() THEN
        RETURN 0;
    END IF;
    FOR retired IN
        SELECT c.relname FROM pg_class c
        WHERE c.relkind = 'r' AND c.relname ~ '^webhook_(events|deliveries|tries)_([0-9]{8}|first)_retired$'
          AND c.relnamespace = (SELECT p.relnamespace FROM pg_class p WHERE p.oid = 'webhook_events'::regclass)
          AND NOT c.relispartition
    LOOP
        PERFORM webhook_disturb_vacuum(retired);
        EXECUTE format('DROP TABLE %I', retired);
        dropped := dropped + 1;
    END LOOP;
    RETURN dropped;
END
$$;
-- +goose StatementEnd

-- webhook_sweep_default deletes rows of the default partitions with ids before a bound, most of each kind, and says how
-- many it deleted: no delivery that is pending, no try of a delivery that is there, no event of one that is pending.
-- +goose StatementBegin
CREATE FUNCTION webhook_sweep_default(bound uuid, most integer) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    swept bigint;
    total bigint := 0;
BEGIN
    IF NOT webhook_one_keeper() THEN
        RETURN 0;
    END IF;
    DELETE FROM webhook_deliveries_default WHERE id = ANY (ARRAY(
        SELECT d.id FROM webhook_deliveries_default d WHERE d.id < bound AND d.state <> 'pending' LIMIT most));
    GET DIAGNOSTICS swept = ROW_COUNT;
    total := total + swept;
    DELETE FROM webhook_tries_default WHERE delivery_id = ANY (ARRAY(
        SELECT t.delivery_id FROM webhook_tries_default t
        WHERE t.delivery_id < bound AND NOT EXISTS (SELECT FROM webhook_deliveries d WHERE d.id = t.delivery_id) LIMIT most));
    GET DIAGNOSTICS swept = ROW_COUNT;
    total := total + swept;
    DELETE FROM webhook_events_default WHERE id = ANY (ARRAY(
        SELECT ev.id FROM webhook_events_default ev
        WHERE ev.id < bound
          AND NOT EXISTS (SELECT FROM webhook_deliveries d WHERE d.state = 'pending' AND d.event_id = ev.id) LIMIT most));
    GET DIAGNOSTICS swept = ROW_COUNT;
    RETURN total + swept;
END
$$;
-- +goose StatementEnd
