-- Copies the row of the key with the prefix $1: other ids ($2), prefixes ($3) and hashes ($4), and every other column as it is.
INSERT INTO api_keys
SELECT made.*
FROM set_config('examprep.bulk_changes', 'on', true),
     api_keys k,
     ROWS FROM (unnest($2::uuid[]), unnest($3::text[]), unnest($4::text[])) AS n (id, prefix, hash),
     jsonb_populate_record(k, jsonb_build_object('id', n.id, 'family_id', n.id, 'prefix', n.prefix, 'hash', n.hash)) AS made
WHERE k.prefix = $1
