-- +goose Up
-- Owned by server/catalog. Content that somebody changes in the database, behind the digests that name it, must be noticed.
-- Each immutable row keeps a fingerprint of what was written; who asks whether an exam is as declared has PostgreSQL compute
-- it anew from what is there, in the same statement. NULL: written by a release that kept none; the operator compares such
-- a row with what is declared once, and then gives it one.
ALTER TABLE exam_revisions ADD COLUMN fingerprint bytea;
ALTER TABLE paper_revisions ADD COLUMN fingerprint bytea;
-- How often something that is published was put right. Who caches content by its digest caches it by this number, too.
ALTER TABLE exams ADD COLUMN repairs bigint NOT NULL DEFAULT 0;

-- The last repair of each exam, for its owner to read: the changes may show answers.
CREATE TABLE exam_repairs (
    exam_key text PRIMARY KEY REFERENCES exams ON DELETE CASCADE,
    -- The revision that was right again after it.
    revision bigint NOT NULL,
    at       timestamptz NOT NULL,
    changes  json NOT NULL
);

-- Every setting of the session that could change a text (time zone, bytea_output, client_encoding) is kept out of these.
-- SQL functions of one expression are inlined: a reader of many rows pays no call.
-- +goose StatementBegin
CREATE FUNCTION catalog_paper_fingerprint(paper_id text, seal_digest bytea, title text, subject text, year integer,
    duration_minutes integer, question_count integer, metadata json, questions json, answer_key json) RETURNS bytea
LANGUAGE sql STABLE AS $$
    SELECT sha256(
        sha256(convert_to(ROW(paper_id, encode(seal_digest, 'hex'), title, subject, year, duration_minutes, question_count,
                              metadata::text)::text, 'UTF8'))
        || sha256(convert_to(questions::text, 'UTF8')) || sha256(convert_to(answer_key::text, 'UTF8')))
$$;
-- +goose StatementEnd

-- A paper's line in the list that catalog_revision_fingerprint takes.
-- +goose StatementBegin
CREATE FUNCTION catalog_paper_line(paper_id text, digest bytea, sealed boolean, verification json) RETURNS text
LANGUAGE sql STABLE AS $$
    SELECT ROW(paper_id, encode(digest, 'hex'), sealed, verification::text)::text
$$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION catalog_revision_fingerprint(digest bytea, document json, created_at timestamptz, papers text) RETURNS bytea
LANGUAGE sql STABLE AS $$
    SELECT sha256(convert_to(ROW(encode(digest, 'hex'), document::text, (extract(epoch FROM created_at) * 1000000)::bigint,
                                 papers)::text, 'UTF8'))
$$;
-- +goose StatementEnd
