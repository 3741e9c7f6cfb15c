-- One submit: state, answers, score and both events in one statement. Client and n name the attempt that open.sql opened.
\set n :n + 1
WITH closed AS (
    UPDATE attempts
    SET state = 'submitted', scoring_status = 'scored', closed_at = now(), submitted_at = now(), late = false,
        overtime_sec = 0, score_hundredths = 4250, answers = :answers::jsonb,
        submission_digest = decode(repeat('ab', 32), 'hex')
    WHERE id = ('0b' || lpad(to_hex(:client_id::int), 6, '0') || lpad(to_hex(:n::bigint), 24, '0'))::uuid
      AND state = 'in_progress'
    RETURNING account_id
), recorded AS MATERIALIZED (
    SELECT record_event(e.id, e.kind, closed.account_id, e.body) AS deliveries
    FROM closed, ROWS FROM (
        unnest(ARRAY[('0c' || lpad(to_hex(:client_id::int), 6, '0') || lpad(to_hex(:n::bigint), 24, '0'))::uuid,
                     ('0d' || lpad(to_hex(:client_id::int), 6, '0') || lpad(to_hex(:n::bigint), 24, '0'))::uuid]),
        unnest(ARRAY['mock_attempt.submitted', 'mock_attempt.scored']),
        unnest(ARRAY[:body::bytea, :body::bytea])) AS e (id, kind, body)
)
SELECT EXISTS (SELECT FROM closed) AS closed, (SELECT coalesce(sum(deliveries), 0) FROM recorded)::bigint AS deliveries;
