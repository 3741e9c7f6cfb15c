package content

import (
	"context"
	"fmt"
	"io"
	"maps"

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

// Lint checks all resources of b, as far as this is possible without a cluster. It reports each problem with file, line and field. A warning
// prevents no publication, except that of a seal in production. It returns a *ProblemsError with the report if there is an error.
func Lint(ctx context.Context, b *Files, options LintOptions) (LintReport, error) {
	l := linter{
		files: b, verifiers: options.Verifiers, reported: maps.Clone(b.reported),
		seen: make(map[*configMap]bool),
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
	for _, endpoint := range b.endpoints {
		l.endpoint(endpoint)
	}
	for _, tier := range b.tiers {
		l.tier(tier)
	}
	if len(b.Contents)+len(b.endpoints)+len(b.tiers)+len(l.problems) == 0 {
		l.report(syntax.Position{File: "."}, "", fmt.Sprintf("no resource of %s found in %d files", v1alpha1.GroupVersion, b.files))
	}
	report.Problems = append([]Problem{}, SortProblems(l.problems)...)
	return report, AsError(report.Problems)
}

type linter struct {
	files *Files
	// verifiers may be nil.
	verifiers catalog.Verifiers
	problems  []Problem
	reported  places
	// seen are the ConfigMaps whose metadata is checked.
	seen map[*configMap]bool
	// last is the last chunk with a problem.
	last     chunkPlace
	lastName chunkName
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
	if content.Spec.Revision != nil {
		return catalog.Exam{} // the operator reads neither papers nor references of a pinned resource, so that a roll-back works
	}
	a, err := assemble.Read(ctx, &content.ExamContent, l.files)
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

// references checks the metadata of all ConfigMaps that an exam refers to, and reports refused references.
func (l *linter) references(ctx context.Context, content *Content, refused assemble.Errors) {
	for _, paper := range content.Spec.Papers {
		for _, source := range paper.QuestionsFrom {
			l.configMap(content, source.ConfigMapKeyRef)
		}
	}
	for _, err := range refused {
		l.refused(ctx, content, err)
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
	found, _ := l.place(ctx, content.Namespace, source.ConfigMap, source.Key)
	line := assemble.LineOf(found.text, source.Index, source.Tail)
	field := syntax.Path{}.At(source.Index).Join(source.Tail)
	reported := found.problem(line, field.String(), problem.Detail)
	reported.Severity = severity
	l.problems = append(l.problems, reported)
}

// configMap checks a referenced ConfigMap's metadata.
func (l *linter) configMap(content *Content, ref v1alpha1.ConfigMapKeyRef) {
	found := l.files.configMaps[objectName{namespace: content.Namespace, name: ref.Name}]
	if found == nil || l.seen[found] {
		return
	}
	l.seen[found] = true
	l.checkSize(&found.doc)
	if !isContent(found) {
		p := syntax.Path{}.Field("metadata").Field("labels")
		l.report(found.doc.Position(p), p.String(),
			fmt.Sprintf("lacks %s: \"true\": without it the operator does not notice changes at once", v1alpha1.ContentLabel))
	}
}

// maxObjectBytes is etcd's limit. kubectl's client-side apply has a lower one (importer.DefaultObjectBytes).
const maxObjectBytes = 1_500_000

func (l *linter) checkSize(doc *syntax.Document) {
	if size := len(doc.JSON); size > maxObjectBytes {
		l.report(doc.Position(nil), "", fmt.Sprintf(
			"the object has %d bytes as JSON; a cluster takes %d: put questions into more ConfigMaps", size, maxObjectBytes))
	}
}
