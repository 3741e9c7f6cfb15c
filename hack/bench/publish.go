package main

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"examprep.dev/api/v1alpha1"
	"examprep.dev/hack/bench/baseline"
)

const (
	papersPerExam = 10
	// examsPerTurn are published, then copied.
	examsPerTurn = 8
)

// measurePublish compares the publisher with COPY of the same papers; an operation is one question.
func measurePublish(ctx context.Context, s *stack, duration time.Duration, r *report) error {
	if err := s.openBaseline(ctx); err != nil {
		return err
	}
	var published, copied series
	var elapsed time.Duration
	for turn := 0; len(published) < gateTurns || elapsed < duration; turn++ {
		var exams []*v1alpha1.ExamContent
		for i := range examsPerTurn {
			number := turn*examsPerTurn + i
			exams = append(exams, withRules(examContent(fmt.Sprintf("bench-publish-%d", number), uint64(number), papersPerExam, questionsPerPaper)))
		}
		first, err := s.publish(ctx, exams)
		if err != nil {
			return err
		}
		second, err := s.copyExams(ctx, exams)
		if err != nil {
			return err
		}
		if turn > 0 { // the first only warms up
			published, copied = append(published, first), append(copied, second)
			elapsed += first.elapsed
		}
	}
	if len(published)%2 == 0 { // the median needs an odd number
		published, copied = published[1:], copied[1:]
	}
	r.medians(fmt.Sprintf("questions published, %d papers of %d an exam", papersPerExam, questionsPerPaper), published)
	r.medians("  COPY of the same papers", copied)
	r.judge(verdict{
		what: "publish: rate / that of COPY", unit: "×", bar: 0.45, goal: 0.6, least: true,
		measured: ratio(published, copied, (*sample).rate),
	})
	exam := withRules(examContent("bench-publish-counted", 1, papersPerExam, questionsPerPaper))
	return s.noteStatements(ctx, s.pool, "a question that is published", r, func(ctx context.Context) (int, error) {
		counted, err := s.publish(ctx, []*v1alpha1.ExamContent{exam})
		return counted.operations, err
	})
}

func (s *stack) publish(ctx context.Context, exams []*v1alpha1.ExamContent) (sample, error) {
	publications := make([]publication, len(exams))
	for i, content := range exams {
		var err error
		if publications[i], err = newPublication(ctx, content); err != nil {
			return sample{}, err
		}
	}
	w, err := s.watchWithClient(processPostgres)
	if err != nil {
		return sample{}, err
	}
	for _, one := range publications {
		if err := one.publish(ctx, s.pool); err != nil {
			return sample{}, err
		}
	}
	result, err := w.stop()
	result.operations = len(exams) * papersPerExam * questionsPerPaper
	return result, err
}

// copyExams copies the papers of exams into the baseline's tables, one transaction each. Only the copying is measured.
func (s *stack) copyExams(ctx context.Context, exams []*v1alpha1.ExamContent) (sample, error) {
	conn, err := s.baseline.Acquire(ctx)
	if err != nil {
		return sample{}, err
	}
	defer conn.Release()
	type rows struct{ papers, keys []byte }
	all := make([]rows, len(exams))
	for i, content := range exams {
		if _, err := conn.Exec(ctx, "INSERT INTO exams (exam_key) VALUES ($1)", content.Name); err != nil {
			return sample{}, err
		}
		if all[i].papers, all[i].keys, err = baseline.PaperRows(content.Name, papersOf(content)); err != nil {
			return sample{}, err
		}
	}
	w, err := s.watchWithClient(processPostgres)
	if err != nil {
		return sample{}, err
	}
	for _, one := range all {
		err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
			if _, err := tx.Conn().PgConn().CopyFrom(ctx, bytes.NewReader(one.papers), baseline.CopyPapers); err != nil {
				return err
			}
			_, err := tx.Conn().PgConn().CopyFrom(ctx, bytes.NewReader(one.keys), baseline.CopyKeys)
			return err
		})
		if err != nil {
			return sample{}, fmt.Errorf("copy papers: %w", err)
		}
	}
	result, err := w.stop()
	result.operations = len(exams) * papersPerExam * questionsPerPaper
	return result, err
}

// papersOf returns an exam's papers as the baseline knows them.
func papersOf(content *v1alpha1.ExamContent) []baseline.Paper {
	var papers []baseline.Paper
	for _, from := range content.Spec.Papers {
		paper := baseline.Paper{ID: from.PaperID, Title: from.Title, Subject: from.Subject, Year: int(from.Year), SourceURL: from.Provenance.SourceURL}
		for _, q := range from.Questions {
			paper.Questions = append(paper.Questions, baseline.Question{
				Section: int(q.Section), Number: int(q.Number), Prompt: q.Prompt, Options: q.Options, Page: int(q.Page),
				Choice: q.Answer.Choice, Explanation: q.Explanation,
			})
		}
		papers = append(papers, paper)
	}
	return papers
}
