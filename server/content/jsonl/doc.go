// Package jsonl imports exams from JSON Lines: exams.json, papers.jsonl and questions.jsonl.
//
// Import converts them to ExamContents and ConfigMaps, validates these as the operator would, and writes them as YAML files.
package jsonl
