package main

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"time"

	"golang.org/x/sync/errgroup"

	"examprep.dev/api/v1alpha1"
)

// fewExams is how many exams the baseline's catalogue has. Each exam has cataloguePapers papers of catalogueQuestions questions.
const fewExams, cataloguePapers, catalogueQuestions = 100, 5, 40

// measureCatalogue compares a catalogue of very many exams with one of few. Two pods, each on a database of its own in the
// same PostgreSQL, get the same requests in turn. Then one exam of each is changed, again and again.
func measureCatalogue(ctx context.Context, s *stack, duration time.Duration, r *report) error {
	return s.compareDatasets(ctx, "catalogue", fewExams, s.catalogueExams, s.fillCatalogue, func(small, large *dataset) error {
		asked := catalogueRequests()
		if err := askInTurn(ctx, small, large, asked, 2*duration); err != nil {
			return err
		}
		published, served, err := s.changeInTurn(ctx, small, large)
		if err != nil {
			return err
		}
		for _, c := range append(asked, published, served) {
			c.report(r, small, large)
		}
		r.notef("A pod is ready %.1f s after its start with %d exams, and after %.1f s with %d.",
			large.ready.Seconds(), large.size, small.ready.Seconds(), small.size)
		return nil
	})
}

func catalogueExam(n int64) string { return fmt.Sprintf("bench-catalogue-%d", n) }

func exams(d *dataset) string { return fmt.Sprintf("%d exams", d.size) }

// fillCatalogue publishes the exams.
func (s *stack) fillCatalogue(ctx context.Context, d *dataset) error {
	began := time.Now()
	group, within := errgroup.WithContext(ctx)
	group.SetLimit(runtime.NumCPU())
	for n := range d.size {
		group.Go(func() error {
			exam, err := newPublication(within, catalogueContent(n))
			if err != nil {
				return err
			}
			return exam.publish(within, d.pool)
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for _, statement := range []string{"VACUUM (ANALYZE)", "CHECKPOINT"} { // now, not while something is measured
		if err := s.maintain(ctx, d.pool, statement); err != nil {
			return err
		}
	}
	s.say("%s: %d exams, %d questions, in %.0f s", d.name, d.size, d.size*cataloguePapers*catalogueQuestions, time.Since(began).Seconds())
	return nil
}

func catalogueContent(n int64) *v1alpha1.ExamContent {
	return examContent(catalogueExam(n), uint64(n), cataloguePapers, catalogueQuestions)
}

// catalogueRequests are for what a pod has in memory, and for papers that it reads from PostgreSQL.
func catalogueRequests() []*comparison {
	chance := rand.New(rand.NewPCG(1, 3))
	anyExam := func(d *dataset) string { return catalogueExam(chance.Int64N(d.size)) }
	document := func(path, field string) func(*dataset) ([]byte, func([]byte) error) {
		return func(d *dataset) ([]byte, func([]byte) error) {
			exam := anyExam(d)
			return getRequest(d.address, "/v1/exam-prep/"+exam+"/"+path, d.key), wants(field, `"exam_key":"`+exam+`"`)
		}
	}
	inMemory := catalogueContent(0)
	next := map[*dataset]int64{}
	return []*comparison{
		{name: "catalogue, overview", size: exams, request: document("overview", `"name":`)},
		{name: "catalogue, papers of an exam", size: exams, request: document("mock-exams", fmt.Sprintf(`"total_papers":%d`, cataloguePapers))},
		{name: "catalogue, questions of a paper", size: exams, request: func(d *dataset) ([]byte, func([]byte) error) {
			return askQuestions(d, inMemory, 0)
		}},
		{name: "catalogue, questions of a paper that is not in memory", size: exams, request: func(d *dataset) ([]byte, func([]byte) error) {
			next[d]++ // the first paper of all is in memory
			n := next[d]
			if n >= fewExams*cataloguePapers {
				return nil, nil
			}
			return askQuestions(d, catalogueContent(n/cataloguePapers*(d.size/fewExams)), n%cataloguePapers)
		}},
	}
}

// askQuestions is for the questions of an exam's paper.
func askQuestions(d *dataset, exam *v1alpha1.ExamContent, paper int64) ([]byte, func([]byte) error) {
	asked := exam.Spec.Papers[paper]
	body := []byte(`{"paper_id":"` + asked.PaperID + `"}`)
	return postRequest(d.address, "/v1/exam-prep/"+exam.Name+"/mock-exams/questions", d.key, body),
		wants(`"prompt":"`+asked.Questions[0].Prompt+`"`, fmt.Sprintf(`"total":%d`, catalogueQuestions))
}

// wants checks that a body has all texts.
func wants(texts ...string) func(body []byte) error {
	return func(body []byte) error {
		for _, text := range texts {
			if !bytes.Contains(body, []byte(text)) {
				return fmt.Errorf("no %s in the response: %.200s", text, body)
			}
		}
		return nil
	}
}

const (
	// catalogueChanges is how often each catalogue is changed; askGap is how long until the pod is asked again for a change.
	catalogueChanges = 25
	askGap           = time.Millisecond / 2
	// changeGap is the time before each change. A pod waits 50 ms between two refreshes, which is not what is measured.
	changeGap = 200 * time.Millisecond
)

// changeInTurn publishes changes of one exam in both catalogues, in turn: how long each publication takes, and how long after it
// the pod serves the change. The first turn warms up and does not count.
func (s *stack) changeInTurn(ctx context.Context, small, large *dataset) (published, served *comparison, err error) {
	published = &comparison{name: "catalogue, publication of a changed exam", size: exams}
	served = &comparison{name: "catalogue, from the publication to the response", size: exams}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for turn := range catalogueChanges {
		for _, side := range []struct {
			data              *dataset
			published, served *sample
		}{{small, &published.small, &served.small}, {large, &published.large, &served.large}} {
			if !wait(ctx, timer, changeGap) {
				return nil, nil, ctx.Err()
			}
			content := catalogueContent(0)
			content.Spec.Name = fmt.Sprintf("Benchmark exam, change %d", turn)
			committing, serving, err := changeExam(ctx, side.data, content, timer)
			if err != nil {
				return nil, nil, fmt.Errorf("change an exam of %s: %w", side.data.name, err)
			}
			if turn > 0 {
				side.published.count(committing)
				side.served.count(serving)
			}
		}
	}
	return published, served, nil
}

// changeExam publishes an exam and asks the pod until it serves its name.
func changeExam(ctx context.Context, d *dataset, content *v1alpha1.ExamContent, timer *time.Timer) (committing, serving time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	exam, err := newPublication(ctx, content)
	if err != nil {
		return 0, 0, err
	}
	asker, err := dialAsker(ctx, d.address)
	if err != nil {
		return 0, 0, err
	}
	defer asker.conn.Close()
	began := time.Now()
	if err := exam.publish(ctx, d.pool); err != nil {
		return 0, 0, err
	}
	committed := time.Now()
	request, name := getRequest(d.address, "/v1/exam-prep/"+content.Name+"/overview", d.key), []byte(content.Spec.Name+`"`)
	for wait(ctx, timer, askGap) {
		body, _, err := asker.ask(ctx, request)
		if err != nil {
			return 0, 0, err
		}
		if bytes.Contains(body, name) {
			return committed.Sub(began), time.Since(committed), nil
		}
	}
	return 0, 0, ctx.Err()
}
