-- One open: both counters and the attempt in one statement. Each client has a key of its own, and 50 learners in turn.
\set n :n + 1
WITH of_key AS (
    INSERT INTO attempt_counters (family_id, exam_key, learner, total)
    VALUES (('0a' || lpad(to_hex(:client_id::int), 30, '0'))::uuid, 'baseline-exam', '', 1)
    ON CONFLICT (family_id, exam_key, learner) DO UPDATE SET total = attempt_counters.total + 1
    RETURNING total
), of_learner AS (
    INSERT INTO attempt_counters (family_id, exam_key, learner, total)
    SELECT ('0a' || lpad(to_hex(:client_id::int), 30, '0'))::uuid, 'baseline-exam',
           decode(lpad(to_hex(:client_id::int * 50 + :n::bigint % 50), 64, '0'), 'hex'), 1
    FROM of_key
    ON CONFLICT (family_id, exam_key, learner) DO UPDATE SET total = attempt_counters.total + 1
    RETURNING total
)
INSERT INTO attempts (id, account_id, family_id, key_id, exam_key, paper_id, paper_digest, learner, key_seq, learner_seq,
                      question_count, opened_at, expires_at)
SELECT ('0b' || lpad(to_hex(:client_id::int), 6, '0') || lpad(to_hex(:n::bigint), 24, '0'))::uuid,
       ('0a' || lpad(to_hex(:client_id::int), 30, '0'))::uuid, ('0a' || lpad(to_hex(:client_id::int), 30, '0'))::uuid,
       ('0a' || lpad(to_hex(:client_id::int), 30, '0'))::uuid, 'baseline-exam', 'baseline-exam-0000',
       decode(repeat('ab', 32), 'hex'), decode(lpad(to_hex(:client_id::int * 50 + :n::bigint % 50), 64, '0'), 'hex'),
       of_key.total, (SELECT total FROM of_learner), 100, now(), now() + interval '3 hours'
FROM of_key
RETURNING key_seq;
