-- Attempts as many keys open them in turn, in the order of time. Every tenth row is the hot key's ($1 to $4), and every tenth of
-- those is the hot learner's ($6). The others are of 5,000 keys and their learners. So rows of one key are far apart, each on a page
-- of its own. $5 is the exam, rows from $7 to $8 are written. Sequence numbers are dense, as the
-- product's are: each is computed from the row's number.
INSERT INTO attempts (id, account_id, family_id, key_id, exam_key, paper_id, paper_digest, learner, key_seq, learner_seq,
                      state, scoring_status, question_count, opened_at, expires_at, closed_at, submitted_at,
                      score_hundredths, answers, submission_digest)
SELECT id, account, family, key, $5, $5 || '-0000', sha256($5::text::bytea), learner, key_seq, learner_seq,
       CASE WHEN open THEN 'in_progress' ELSE 'submitted' END, CASE WHEN open THEN 'pending' ELSE 'scored' END,
       5, opened, opened + interval '3 hours', CASE WHEN NOT open THEN opened + interval '1 hour' END,
       CASE WHEN NOT open THEN opened + interval '1 hour' END, CASE WHEN NOT open THEN 5000 END,
       CASE WHEN NOT open THEN '{"1:1":"A","1:2":"B","1:3":"C","1:4":"D","1:5":"A"}'::json END,
       CASE WHEN NOT open THEN sha256(id::text::bytea) END
FROM (
    SELECT i, opened, family, account, key, learner, key_seq, learner_seq, i % 1000 = 7 AS open,
           -- A UUIDv7 of the time: as the product's, they grow.
           (lpad(to_hex((extract(epoch FROM opened) * 1000)::bigint), 12, '0') || '7' || substr(md5(i::text), 1, 3)
               || '8' || substr(md5(i::text), 4, 15))::uuid AS id
    FROM (
        SELECT i, timestamptz '2024-01-01Z' + i * interval '3 seconds' AS opened,
               $2::uuid AS family, $1::uuid AS account, $3::uuid AS key, i / 10 + 1 AS key_seq,
               CASE WHEN i % 100 = 0 THEN $6::bytea WHEN i % 100 < 50 THEN ''
                    ELSE sha256(('hot' || i % 100 || '/' || i / 100 % 1000)::bytea) END AS learner,
               CASE WHEN i % 100 = 0 THEN i / 100 + 1 WHEN i % 100 < 50 THEN NULL
                    ELSE i / 100000 + 1 END AS learner_seq
        FROM generate_series($7::bigint, $8::bigint) i WHERE i % 10 = 0
        UNION ALL
        SELECT i, timestamptz '2024-01-01Z' + i * interval '3 seconds',
               md5('family' || n % 5000)::uuid, $4::uuid, md5('family' || n % 5000)::uuid, n / 5000 + 1,
               CASE WHEN n / 5000 % 2 = 0 THEN '' ELSE sha256((n % 5000 || '/' || n / 5000 % 40)::bytea) END,
               CASE WHEN n / 5000 % 2 = 0 THEN NULL ELSE n / 200000 + 1 END
        FROM (SELECT i, i - i / 10 - 1 AS n FROM generate_series($7::bigint, $8::bigint) i WHERE i % 10 <> 0) cold
    ) numbered
    ORDER BY i
) dated
