COPY paper_answer_keys (exam_key, digest, answer_key) FROM STDIN
