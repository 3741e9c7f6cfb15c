package content

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"

	"examprep.dev/api/v1alpha1"
	"examprep.dev/server/catalog"
	"examprep.dev/server/content/assemble"
	"examprep.dev/server/content/syntax"
)

// LintReport is what Lint found.
type LintReport struct {
	Files        int       `json:"files"`
	ExamContents int       `json:"exam_contents"`
	Papers       int       `json:"papers"`
	Questions    int       `json:"questions"`
	Ignored      int       `json:"ignored_documents"`
	Problems     []Problem `json:"problems"`
}

// WriteText prints one problem a line, and a summary unless there is an error.
func (r LintReport) WriteText(w io.Writer) error {
	if err := WriteLines(w, r.Problems); err != nil || AsError(r.Problems) != nil {
		return err
	}
	found := "no problem found"
	if count := len(r.Problems); count > 0 {
		found = fmt.Sprintf("%d warnings", count)
	}
	_, err := fmt.Fprintf(w, "%d files, %d exams, %d papers, %d questions: %s\n",
		r.Files, r.ExamContents, r.Papers, r.Questions, found)
	return err
}

// LintOptions shape one Lint.
type LintOptions struct {
	// Verifiers, if set, must accept every paper's seal.
	Verifiers catalog.Verifiers
}

// Lint checks all resources of b, as far as this is possible without a cluster. It reports each problem with file, line and field. Warnings
// prevent no publication. It returns a *ProblemsError with the report if there is an error.
func Lint(ctx context.Context, b *Files, options LintOptions) (LintReport, error) {
	l := linter{
		bundle: b, verifiers: options.Verifiers, reported: maps.Clone(b.reported),
		seen: make(map[*configMap]bool), views: make(map[chunkName]chunkView),
	}
	l.problems = append(l.problems, b.problems...)
	report := LintReport{Files: b.files, ExamContents: len(b.Contents), Ignored: b.ignored}
	keys := make(map[string]syntax.Position)
	for i := range b.Contents {
		if err := ctx.Err(); err != nil {
			return LintReport{}, err
		}
		content := &b.Contents[i]
		key := content.Spec.ExamKey
		at := content.doc.Position(syntax.Path{}.Field("spec").Field("examKey"))
		if first, twice := keys[key]; twice && key != "" {
			l.report(at, "spec.examKey", fmt.Sprintf("exam %s is declared already in %s:%d", key, first.File, first.Line))
		} else {
			keys[key] = at
		}
		exam := l.content(ctx, content)
		report.Papers += len(exam.Papers)
		for _, paper := range exam.Papers {
			report.Questions += len(paper.Questions)
		}
	}
	for i := range b.webhooks {
		l.webhook(&b.webhooks[i])
	}
	for i := range b.tiers {
		l.tier(&b.tiers[i])
	}
	if len(b.Contents)+len(b.webhooks)+len(b.tiers)+len(l.problems) == 0 {
		l.report(syntax.Position{File: "."}, "", fmt.Sprintf("no resource of %s found in %d files", v1alpha1.GroupVersion, b.files))
	}
	report.Problems = append([]Problem{}, SortProblems(l.problems)...)
	return report, AsError(report.Problems)
}

type linter struct {
	bundle *Files
	// verifiers may be nil.
	verifiers catalog.Verifiers
	problems  []Problem
	reported  places
	// seen are the ConfigMaps whose metadata is checked.
	seen map[*configMap]bool
	// views are the chunks that were looked at.
	views map[chunkName]chunkView
}

type chunkName struct {
	objectName

	key string
}

func (l *linter) report(at syntax.Position, field, detail string) {
	l.problems = append(l.problems, Problem{Position: at, Field: field, Detail: detail})
}

// reportOnce ignores a problem of a field that is reported already, or whose parent is: to the catalogue's rules, a value of a wrong type
// is also missing.
func (l *linter) reportOnce(doc *syntax.Document, p syntax.Path, detail string) {
	l.once(doc, p, SeverityError, detail)
}

func (l *linter) once(doc *syntax.Document, p syntax.Path, severity Severity, detail string) {
	if l.reported.covers(doc, p) {
		return
	}
	l.reported[place{doc.Root, p.String()}] = true
	l.problems = append(l.problems, Problem{Position: doc.Position(p), Field: p.String(), Detail: detail, Severity: severity})
}

func (l *linter) content(ctx context.Context, content *Content) catalog.Exam {
	l.checkSize(&content.doc)
	l.checkInterval(&content.doc, "resyncInterval", content.Spec.ResyncInterval, 30*time.Second, 0)
	for i := range content.Spec.Papers {
		l.checkCounts(content, i)
	}
	if content.Spec.Revision != nil {
		return catalog.Exam{} // the operator reads neither papers nor references of a pinned resource, so that a roll-back works
	}
	a, err := assemble.Read(ctx, &content.ExamContent, l.bundle)
	if err != nil {
		l.report(content.Position, "spec.papers", err.Error())
		return catalog.Exam{}
	}
	l.references(ctx, content, a.Refused)
	if len(a.Refused) > 0 {
		return a.Exam // an incomplete exam cannot be validated
	}
	found, err := a.Findings()
	if err != nil {
		l.report(content.Position, "", err.Error())
	}
	for _, problem := range found.Problems {
		l.finding(ctx, a, content, problem, SeverityError)
	}
	for _, warning := range found.Warnings {
		l.finding(ctx, a, content, warning, SeverityWarning)
	}
	if found.Omitted > 0 {
		l.report(content.Position, "spec", fmt.Sprintf("and %d more problems", found.Omitted))
	}
	for i := range a.Exam.Papers {
		l.seal(content, i, &a.Exam.Papers[i])
	}
	return a.Exam
}

// references checks the chunks of all papers. A reference that assemble refused without a problem in the chunk is reported itself.
func (l *linter) references(ctx context.Context, content *Content, refused assemble.Errors) {
	explained := make(map[string]bool)
	for i, paper := range content.Spec.Papers {
		for k, source := range paper.QuestionsFrom {
			before := len(l.problems)
			l.configMap(content, source.ConfigMapKeyRef)
			l.chunk(ctx, content, i, k)
			field := syntax.Path{}.Field("spec").Field("papers").At(i).Field("questionsFrom").At(k).String()
			explained[field] = AsError(l.problems[before:]) != nil
		}
	}
	for _, err := range refused {
		invalid, ok := errors.AsType[*assemble.RefError](err)
		if ok && !explained[invalid.Field] {
			l.report(content.doc.Position(syntax.ParsePath(invalid.Field)), invalid.Field, invalid.Detail)
		}
	}
}

// finding reports a problem of the assembled exam at its position: in the resource, or in the chunk of a ConfigMap.
func (l *linter) finding(ctx context.Context, a *assemble.Assembled, content *Content, problem catalog.Problem, severity Severity) {
	source, chunked := a.Source(problem.Field)
	if !chunked {
		located := syntax.Path{}.Field("spec").Join(syntax.ParsePath(problem.Field))
		l.once(&content.doc, located, severity, problem.Detail)
		return
	}
	view := l.view(ctx, content.Namespace, v1alpha1.ConfigMapKeyRef{Name: source.ConfigMap, Key: source.Key})
	if source.Index >= len(view.questions) {
		located := a.InResource(problem)
		l.problems = append(l.problems, Problem{
			Position: content.doc.Position(syntax.ParsePath(located.Field)), Field: located.Field, Detail: located.Detail, Severity: severity,
		})
		return
	}
	at := syntax.Locate(view.questions[source.Index], source.Tail)
	inChunk := syntax.Path{}.At(source.Index).Join(source.Tail)
	l.problems = append(l.problems, Problem{
		Position: view.position(at.Line), Field: view.field + inChunk.String(), Detail: view.in(at.Line) + problem.Detail, Severity: severity,
	})
}

// view reads each chunk once.
func (l *linter) view(ctx context.Context, namespace string, ref v1alpha1.ConfigMapKeyRef) chunkView {
	name := chunkName{objectName{namespace, ref.Name}, ref.Key}
	view, known := l.views[name]
	if !known {
		view = l.bundle.view(ctx, namespace, ref)
		l.views[name] = view
	}
	return view
}

// configMap checks a referenced ConfigMap's metadata.
func (l *linter) configMap(content *Content, ref v1alpha1.ConfigMapKeyRef) {
	found := l.bundle.configMaps[objectName{namespace: content.Namespace, name: ref.Name}]
	if found == nil || l.seen[found] {
		return
	}
	l.seen[found] = true
	l.checkSize(&found.doc)
	if !isContent(found) {
		l.problems = append(l.problems, formProblems(&found.doc, &corev1.ConfigMap{}, l.reported)...)
		p := syntax.Path{}.Field("metadata").Field("labels")
		l.report(found.doc.Position(p), p.String(),
			fmt.Sprintf("lacks %s: \"true\": without it the operator does not notice changes at once", v1alpha1.ContentLabel))
	}
}

// chunk reports the problems of a reference, and those of its chunk at their lines.
func (l *linter) chunk(ctx context.Context, content *Content, paper, k int) {
	source := content.Spec.Papers[paper].QuestionsFrom[k]
	ref := source.ConfigMapKeyRef
	p := syntax.Path{}.Field("spec").Field("papers").At(paper).Field("questionsFrom").At(k)
	raw, err := l.bundle.ReadChunk(ctx, content.Namespace, ref.Name, ref.Key)
	if err != nil {
		l.report(content.doc.Position(p), p.String(), err.Error())
		return
	}
	if have := assemble.ChunkDigest(raw); source.Digest != "" && source.Digest != have {
		p := p.Field("digest")
		l.report(content.doc.Position(p), p.String(), (&assemble.ChunkDigestError{Want: source.Digest, Have: have}).Error())
	}
	view := l.view(ctx, content.Namespace, ref)
	for _, problem := range view.problems {
		l.report(view.position(problem.Line), view.field+problem.Field, view.in(problem.Line)+problem.Detail)
	}
}

// maxObjectBytes is etcd's limit. kubectl's client-side apply has a lower one (jsonl.DefaultObjectBytes).
const maxObjectBytes = 1_500_000

func (l *linter) checkSize(doc *syntax.Document) {
	if size := len(doc.JSON); size > maxObjectBytes {
		l.report(doc.Position(nil), "", fmt.Sprintf(
			"the object has %d bytes as JSON; a cluster takes %d: put questions into more ConfigMaps", size, maxObjectBytes))
	}
}

// checkCounts checks the schema's limits of a paper's lists, which the catalogue does not have.
func (l *linter) checkCounts(content *Content, paper int) {
	source := &content.Spec.Papers[paper]
	p := syntax.Path{}.Field("spec").Field("papers").At(paper)
	if count := len(source.Questions); count > v1alpha1.MaxInlineQuestions {
		at := p.Field("questions")
		l.report(content.doc.Position(at), at.String(), fmt.Sprintf(
			"has %d questions; inline there may be %d: use questionsFrom", count, v1alpha1.MaxInlineQuestions))
	}
	if count := len(source.QuestionsFrom); count > v1alpha1.MaxChunks {
		at := p.Field("questionsFrom")
		l.report(content.doc.Position(at), at.String(), fmt.Sprintf("has %d chunks; there may be %d", count, v1alpha1.MaxChunks))
	}
}
