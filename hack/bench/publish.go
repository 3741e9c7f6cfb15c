package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"examprep.dev/server/catalog"
	"examprep.dev/server/postgres"
)

const (
	papersPerExam = 10
	// examsPerTurn are published, then copied.
	examsPerTurn = 8
)

// measurePublish compares the publisher with COPY of what it writes; an operation is one question.
func measurePublish(ctx context.Context, s *stack, duration time.Duration, r *report) error {
	var published, copied sample
	for turn := 0; turn < 2 || published.elapsed < duration; turn++ {
		var exams []catalog.Exam
		for i := range examsPerTurn {
			number := turn*examsPerTurn + i
			exams = append(exams, exam(fmt.Sprintf("bench-publish-%d", number), uint64(number), papersPerExam))
		}
		first, err := s.publish(ctx, exams)
		if err != nil {
			return err
		}
		second, err := s.copyRows(ctx, exams)
		if err != nil {
			return err
		}
		if turn > 0 { // the first only warms up
			published.add(first)
			copied.add(second)
		}
	}
	r.row(fmt.Sprintf("questions published, %d papers of %d an exam", papersPerExam, questionsPerPaper), &published)
	r.row("  COPY of the same rows", &copied)
	r.judge(verdict{what: "publish: rate / that of COPY", unit: "×", target: 0.5, least: true, measured: published.rate() / copied.rate()})
	return nil
}

func (s *stack) publish(ctx context.Context, exams []catalog.Exam) (sample, error) {
	publisher := catalog.NewPublisher(s.pool, postgres.Sandbox, silent{})
	w, err := s.watchWithClient(processPostgres)
	if err != nil {
		return sample{}, err
	}
	for _, exam := range exams {
		claim := catalog.Claim{Cluster: "bench", Namespace: "bench", Name: exam.Key}
		if _, err := publisher.Publish(ctx, claim, exam, catalog.Options{}); err != nil {
			return sample{}, err
		}
	}
	result, err := w.stop()
	result.operations = len(exams) * papersPerExam * questionsPerPaper
	return result, err
}

// A table that publishing fills, for the most part.
type table struct {
	name    string
	columns []string // without exam_key, which stands first
}

func paperTables() []table {
	return []table{
		{"paper_revisions", []string{
			"digest", "paper_id", "seal_digest", "title", "subject", "year", "duration_minutes", "question_count", "metadata", "questions", "created_at",
		}},
		{"paper_answer_keys", []string{"digest", "answer_key"}},
	}
}

// copyRows copies the papers of exams into the same tables for exams of other keys: as publishing does, one transaction
// each. Only the copying is measured.
func (s *stack) copyRows(ctx context.Context, exams []catalog.Exam) (sample, error) {
	var keys []string
	rows := map[string][][][]any{} // by exam, then by table
	for _, exam := range exams {
		key := exam.Key + "-copy"
		keys = append(keys, key)
		if _, err := s.pool.Exec(ctx, "INSERT INTO exams (exam_key) VALUES ($1)", key); err != nil {
			return sample{}, err
		}
		for _, t := range paperTables() {
			found, err := s.readRows(ctx, t, exam.Key, key)
			if err != nil {
				return sample{}, err
			}
			rows[key] = append(rows[key], found)
		}
	}
	w, err := s.watchWithClient(processPostgres)
	if err != nil {
		return sample{}, err
	}
	for _, key := range keys {
		err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
			for i, t := range paperTables() {
				columns := append([]string{"exam_key"}, t.columns...)
				if _, err := tx.CopyFrom(ctx, pgx.Identifier{t.name}, columns, pgx.CopyFromRows(rows[key][i])); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return sample{}, fmt.Errorf("copy the papers of %s: %w", key, err)
		}
	}
	result, err := w.stop()
	result.operations = len(exams) * papersPerExam * questionsPerPaper
	return result, err
}

// readRows reads an exam's rows as they are to be copied for another. JSON is read as text: decoding it would cost what
// COPY does not.
func (s *stack) readRows(ctx context.Context, t table, from, to string) ([][]any, error) {
	selected := []string{"$2::text"}
	for _, column := range t.columns {
		switch column {
		case "metadata", "questions", "answer_key":
			column += "::text"
		}
		selected = append(selected, column)
	}
	rows, err := s.pool.Query(ctx, "SELECT "+strings.Join(selected, ", ")+" FROM "+t.name+" WHERE exam_key = $1", from, to)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) ([]any, error) { return row.Values() })
}
