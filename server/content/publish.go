package content

import (
	"context"
	"fmt"
	"io"

	"examprep.dev/server/catalog"
	"examprep.dev/server/content/assemble"
	"examprep.dev/server/content/progress"
	"examprep.dev/server/content/syntax"
)

// Publisher publishes an exam, or an earlier revision of it again; *catalog.Publisher is one.
type Publisher interface {
	Publish(ctx context.Context, claim catalog.Claim, exam catalog.ValidExam, options catalog.Options) (catalog.Publication, error)
	RollBack(ctx context.Context, claim catalog.Claim, examKey string, revision int64, options catalog.Options) (catalog.Publication, error)
}

// Differ compares an exam with the published exam of the same key; *catalog.Publisher is one.
type Differ interface {
	Diff(ctx context.Context, exam catalog.ValidExam) ([]catalog.Change, error)
}

// PublishReport lists the published exams.
type PublishReport struct {
	Exams []PublishedExam `json:"exams"`
}

// PublishedExam is an exam after publishing.
type PublishedExam struct {
	syntax.Position

	ExamKey  string `json:"exam_key"`
	Revision int64  `json:"revision"`
	// Changed is false when all of it was published before.
	Changed bool `json:"changed"`
	Papers  int  `json:"papers"`
	// Suspended is true when spec.suspend kept it from being published.
	Suspended bool `json:"suspended,omitempty"`
	// Unsealed lists, sorted, the papers that are published without a trusted seal: in sandbox, or since a time before the present
	// trusted verifiers.
	Unsealed []string `json:"unsealed,omitempty"`
}

// String prints the exam in one line.
func (e PublishedExam) String() string {
	switch {
	case e.Suspended:
		return e.ExamKey + ": suspended, left as it is"
	case e.Changed:
		return fmt.Sprintf("%s: revision %d published, %d papers", e.ExamKey, e.Revision, e.Papers)
	default:
		return fmt.Sprintf("%s: revision %d is published already, %d papers", e.ExamKey, e.Revision, e.Papers)
	}
}

// WriteText prints one exam a line.
func (r PublishReport) WriteText(w io.Writer) error { return WriteLines(w, r.Exams) }

// Publish publishes every ExamContent of b as the operator of the cluster named clusterName would: with the same claim, so there is no
// conflict if the resource is applied later. It assembles all before it publishes the first. Each exam is one transaction. It fails with the
// errors of assemble.Assemble and of catalog.Publisher.Publish. The exams in the report are published, also with an error.
func Publish(ctx context.Context, b *Files, publisher Publisher, clusterName string) (PublishReport, error) {
	report := PublishReport{Exams: []PublishedExam{}} // also with an error: it is printed
	exams, err := assembleAll(ctx, b)
	if err != nil {
		return report, err
	}
	steps := progress.From(ctx)
	steps.Start("publishing", countQuestions(exams), progress.Questions)
	for i := range b.Contents {
		content := &b.Contents[i]
		published := PublishedExam{Position: content.Position, ExamKey: content.Spec.ExamKey, Suspended: content.Spec.Suspend}
		if !published.Suspended {
			claim := catalog.Claim{Cluster: clusterName, Namespace: content.Namespace, Name: content.Name}
			publication, err := publish(ctx, publisher, claim, content, exams[i])
			if err != nil {
				return report, fmt.Errorf("%s: publish %s: %w", content.Position.File, content.Spec.ExamKey, err)
			}
			published.Revision, published.Changed = publication.Revision, publication.Changed
			published.Papers, published.Unsealed = len(publication.PaperDigests), publication.Unsealed
		}
		report.Exams = append(report.Exams, published)
		steps.Add(countQuestions(exams[i : i+1]))
	}
	return report, nil
}

// publish publishes exam, or the revision that spec.revision pins.
func publish(
	ctx context.Context, publisher Publisher, claim catalog.Claim, content *Content, exam catalog.ValidExam,
) (catalog.Publication, error) {
	options := catalog.Options{Adopt: content.Spec.Adopt}
	if limit := content.Spec.RevisionHistoryLimit; limit != nil {
		options.HistoryLimit = 1 + int(*limit) // the catalogue counts the published one too
	}
	if pin := content.Spec.Revision; pin != nil {
		return publisher.RollBack(ctx, claim, content.Spec.ExamKey, *pin, options)
	}
	return publisher.Publish(ctx, claim, exam, options)
}

// assembleAll assembles every ExamContent. The exam of a pinned one is zero.
func assembleAll(ctx context.Context, b *Files) ([]catalog.ValidExam, error) {
	if err := b.Err(); err != nil {
		return nil, err
	}
	exams := make([]catalog.ValidExam, len(b.Contents))
	for i := range b.Contents {
		content := &b.Contents[i]
		if content.Spec.Revision != nil {
			continue
		}
		exam, err := assemble.Assemble(ctx, &content.ExamContent, b)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", content.Position.File, err)
		}
		exams[i] = exam
	}
	return exams, nil
}

func countQuestions(exams []catalog.ValidExam) (count int64) {
	for _, exam := range exams {
		for _, paper := range exam.Exam().Papers {
			count += int64(len(paper.Questions))
		}
	}
	return count
}

// DiffReport lists the changes that publishing would make.
type DiffReport struct {
	Exams []ExamDiff `json:"exams"`
}

// ExamDiff is what publishing one exam would change; nothing when Changes is empty.
type ExamDiff struct {
	syntax.Position

	ExamKey string `json:"exam_key"`
	// Pinned is the revision that spec.revision would publish instead of what the file declares; 0 without a pin.
	Pinned  int64            `json:"pinned,omitempty"`
	Changes []catalog.Change `json:"changes"`
}

// WriteText prints one change a line, under the exam's key.
func (r DiffReport) WriteText(w io.Writer) error {
	for _, exam := range r.Exams {
		state := "nothing changes"
		switch {
		case exam.Pinned > 0:
			state = fmt.Sprintf("pinned to revision %d", exam.Pinned)
		case len(exam.Changes) > 0:
			state = fmt.Sprintf("%d changes", len(exam.Changes))
		}
		if _, err := fmt.Fprintf(w, "%s: %s\n", exam.ExamKey, state); err != nil {
			return err
		}
		for _, change := range exam.Changes {
			if _, err := fmt.Fprintf(w, "  %s\n", change); err != nil {
				return err
			}
		}
	}
	return nil
}

// Diff lists the changes that publishing b would make, question by question. It shows answers, so it is for the exam's owner.
func Diff(ctx context.Context, b *Files, differ Differ) (DiffReport, error) {
	exams, err := assembleAll(ctx, b)
	if err != nil {
		return DiffReport{}, err
	}
	report := DiffReport{Exams: []ExamDiff{}}
	steps := progress.From(ctx)
	steps.Start("comparing", countQuestions(exams), progress.Questions)
	for i := range b.Contents {
		content := &b.Contents[i]
		diff := ExamDiff{Position: content.Position, ExamKey: content.Spec.ExamKey, Changes: []catalog.Change{}}
		if content.Spec.Revision != nil {
			diff.Pinned = *content.Spec.Revision
			report.Exams = append(report.Exams, diff)
			continue
		}
		changes, err := differ.Diff(ctx, exams[i])
		if err != nil {
			return DiffReport{}, fmt.Errorf("compare %s: %w", content.Spec.ExamKey, err)
		}
		diff.Changes = append(diff.Changes, changes...)
		report.Exams = append(report.Exams, diff)
		steps.Add(countQuestions(exams[i : i+1]))
	}
	return report, nil
}
