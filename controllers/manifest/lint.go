package manifest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"

	"examprep.dev/api/v1alpha1"
	"examprep.dev/server/catalog"
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
	if err := writeLines(w, r.Problems); err != nil || problemsError(r.Problems) != nil {
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

	// examBytes takes the place of MaxExamBytes; 0 does not.
	examBytes int
}

// Lint checks everything in b that can be checked without a cluster, and reports each problem with file, line and
// field: form, chunks, the catalogue's own rules, signatures, exam keys declared twice, and the other resources of the group. Warnings
// are problems that prevent no publication. It returns a *ProblemsError with the report when there is an error.
func Lint(ctx context.Context, b *Bundle, options LintOptions) (LintReport, error) {
	l := linter{
		bundle: b, verifiers: options.Verifiers, examBytes: cmp.Or(options.examBytes, MaxExamBytes), reported: maps.Clone(b.reported),
		seen: make(map[*configMap]bool), views: make(map[chunkName]chunkView),
	}
	l.problems = append(l.problems, b.problems...)
	report := LintReport{Files: b.files, ExamContents: len(b.Contents), Ignored: b.ignored}
	keys := make(map[string]Position)
	for i := range b.Contents {
		if err := ctx.Err(); err != nil {
			return LintReport{}, err
		}
		content := &b.Contents[i]
		key := content.Spec.ExamKey
		at := content.doc.position(path{}.field("spec").field("examKey"))
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
		l.report(Position{File: "."}, "", fmt.Sprintf("no resource of %s found in %d files", v1alpha1.GroupVersion, b.files))
	}
	report.Problems = append([]Problem{}, sortProblems(l.problems)...)
	return report, problemsError(report.Problems)
}

type linter struct {
	bundle *Bundle
	// verifiers may be nil.
	verifiers catalog.Verifiers
	examBytes int
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

func (l *linter) report(at Position, field, detail string) {
	l.problems = append(l.problems, Problem{Position: at, Field: field, Detail: detail})
}

// reportOnce leaves out what stands at or below a field that is complained about already: a value of a wrong type is also
// missing to the catalogue's rules.
func (l *linter) reportOnce(doc *document, p path, detail string) {
	l.once(doc, p, SeverityError, detail)
}

func (l *linter) once(doc *document, p path, severity Severity, detail string) {
	if l.reported.covers(doc, p) {
		return
	}
	l.reported[place{doc.root, p.String()}] = true
	l.problems = append(l.problems, Problem{Position: doc.position(p), Field: p.String(), Detail: detail, Severity: severity})
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
	a := assembler{content: &content.ExamContent, chunks: l.bundle, budget: l.examBytes, warn: true}
	if err := a.run(ctx); err != nil {
		l.report(content.Position, "spec.papers", err.Error()) // a Bundle's reader has no other errors than those of run
		return a.exam
	}
	l.references(ctx, content, a.refErrors)
	if len(a.refErrors) > 0 {
		return a.exam // what is incomplete cannot be judged
	}
	problems, omitted, err := a.findings()
	if err != nil {
		l.report(content.Position, "", err.Error())
	}
	for _, problem := range problems {
		l.finding(ctx, &a, content, problem, SeverityError)
	}
	for _, warning := range a.warnings {
		l.finding(ctx, &a, content, warning, SeverityWarning)
	}
	if omitted > 0 {
		l.report(content.Position, "spec", fmt.Sprintf("and %d more problems", omitted))
	}
	for i := range a.exam.Papers {
		l.seal(content, i, &a.exam.Papers[i])
	}
	return a.exam
}

// references checks the chunks of all papers. What the operator refuses and no closer look explains is reported at the reference.
func (l *linter) references(ctx context.Context, content *Content, refused Errors) {
	explained := make(map[string]bool)
	for i, paper := range content.Spec.Papers {
		for k, source := range paper.QuestionsFrom {
			before := len(l.problems)
			l.configMap(content, source.ConfigMapKeyRef)
			l.chunk(ctx, content, i, k)
			field := path{}.field("spec").field("papers").at(i).field("questionsFrom").at(k).String()
			explained[field] = problemsError(l.problems[before:]) != nil
		}
	}
	for _, err := range refused {
		invalid, ok := errors.AsType[*RefError](err)
		if ok && !explained[invalid.Field] {
			l.report(content.doc.position(parsePath(invalid.Field)), invalid.Field, invalid.Detail)
		}
	}
}

// finding reports a problem of the assembled exam at its place: in the resource, or in the chunk of a ConfigMap.
func (l *linter) finding(ctx context.Context, a *assembler, content *Content, problem catalog.Problem, severity Severity) {
	p := parsePath(problem.Field)
	place, chunked := a.origin(p)
	if !chunked {
		located := path{}.field("spec").join(p)
		l.once(&content.doc, located, severity, problem.Detail)
		return
	}
	ref := content.Spec.Papers[place.paper].QuestionsFrom[place.chunk].ConfigMapKeyRef
	view := l.view(ctx, content.Namespace, ref)
	if place.question >= len(view.questions) {
		located := a.inResource(problem)
		l.problems = append(l.problems, Problem{
			Position: content.doc.position(parsePath(located.Field)), Field: located.Field, Detail: located.Detail, Severity: severity,
		})
		return
	}
	at := locate(view.questions[place.question], p[4:])
	inChunk := path{}.at(place.question).join(p[4:])
	l.problems = append(l.problems, Problem{
		Position: view.position(at.Line), Field: view.field + inChunk.String(), Detail: view.in(at.Line) + problem.Detail, Severity: severity,
	})
}

// view is the bundle's, once for each chunk.
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
		p := path{}.field("metadata").field("labels")
		l.report(found.doc.position(p), p.String(),
			fmt.Sprintf("lacks %s: \"true\": without it the operator does not notice changes at once", v1alpha1.ContentLabel))
	}
}

// chunk reports what is wrong with a reference or inside of the chunk, at its lines.
func (l *linter) chunk(ctx context.Context, content *Content, paper, k int) {
	source := content.Spec.Papers[paper].QuestionsFrom[k]
	ref := source.ConfigMapKeyRef
	p := path{}.field("spec").field("papers").at(paper).field("questionsFrom").at(k)
	raw, err := l.bundle.ReadChunk(ctx, content.Namespace, ref.Name, ref.Key)
	if err != nil {
		l.report(content.doc.position(p), p.String(), err.Error())
		return
	}
	if have := ChunkDigest(raw); source.Digest != "" && source.Digest != have {
		p := p.field("digest")
		l.report(content.doc.position(p), p.String(), (&ChunkDigestError{Want: source.Digest, Have: have}).Error())
	}
	view := l.view(ctx, content.Namespace, ref)
	for _, problem := range view.problems {
		l.report(view.position(problem.Line), view.field+problem.Field, view.in(problem.Line)+problem.Detail)
	}
}

// maxObjectBytes is what etcd takes; kubectl's client-side apply takes less (DefaultObjectBytes), others do not.
const maxObjectBytes = 1_500_000

func (l *linter) checkSize(doc *document) {
	if size := len(doc.json); size > maxObjectBytes {
		l.report(doc.position(nil), "", fmt.Sprintf(
			"the object has %d bytes as JSON; a cluster takes %d: put questions into more ConfigMaps", size, maxObjectBytes))
	}
}

// checkCounts checks the schema's own bounds on a paper's lists, which the catalogue does not know.
func (l *linter) checkCounts(content *Content, paper int) {
	source := &content.Spec.Papers[paper]
	p := path{}.field("spec").field("papers").at(paper)
	if count := len(source.Questions); count > v1alpha1.MaxInlineQuestions {
		at := p.field("questions")
		l.report(content.doc.position(at), at.String(), fmt.Sprintf(
			"has %d questions; inline there may be %d: use questionsFrom", count, v1alpha1.MaxInlineQuestions))
	}
	if count := len(source.QuestionsFrom); count > maxChunks {
		at := p.field("questionsFrom")
		l.report(content.doc.position(at), at.String(), fmt.Sprintf("has %d chunks; there may be %d", count, maxChunks))
	}
}
