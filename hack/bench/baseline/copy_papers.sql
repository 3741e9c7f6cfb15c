COPY paper_revisions (exam_key, digest, paper_id, seal_digest, title, subject, year, duration_minutes, question_count, metadata,
                      questions, created_at) FROM STDIN
