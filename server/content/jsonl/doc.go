// Package jsonl imports exams from JSON Lines: exams.json, papers.jsonl and questions.jsonl.
package jsonl
