package manifest

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"examprep.dev/api/v1alpha1"
	"examprep.dev/server/catalog"
)

// Errors are several things wrong at once; errors.As and errors.Is look into each.
type Errors []error

func (e Errors) Error() string {
	texts := make([]string, len(e))
	for i, err := range e {
		texts[i] = err.Error()
	}
	return strings.Join(texts, "; ")
}

// Unwrap returns the single errors.
func (e Errors) Unwrap() []error { return e }

// RefError says that a reference leads to something that cannot be used: the resource, or what it names, must change.
type RefError struct {
	// Field is the reference's path, like `spec.papers[2].questionsFrom[0]`.
	Field  string
	Detail string
	// Err is the cause where there is one: *ChunkError or *ChunkDigestError.
	Err error
}

func (e *RefError) Error() string { return e.Field + ": " + e.Detail }

// Unwrap returns the cause, or nil.
func (e *RefError) Unwrap() error { return e.Err }

// ChunkDigestError says that a chunk is not the one that the resource means: half of a change may be there already, so
// it can pass by itself.
type ChunkDigestError struct{ Want, Have string }

func (e *ChunkDigestError) Error() string {
	return fmt.Sprintf("the chunk's digest is %s, declared is %s", e.Have, e.Want)
}

// ChunkMissingError says that a referenced ConfigMap or a key in it is not there (yet).
type ChunkMissingError struct {
	// Field is the reference's path; a ChunkReader leaves it empty and Assemble fills it in.
	Field                string
	Namespace, Name, Key string
	// KeyMissing is true when the ConfigMap is there without the key.
	KeyMissing bool
}

func (e *ChunkMissingError) Error() string {
	prefix := ""
	if e.Field != "" {
		prefix = e.Field + ": "
	}
	if e.KeyMissing {
		return fmt.Sprintf("%sConfigMap %s/%s has no key %s", prefix, e.Namespace, e.Name, e.Key)
	}
	return fmt.Sprintf("%sConfigMap %s/%s not found", prefix, e.Namespace, e.Name)
}

// Assemble turns a resource and the chunks it refers to into a validated exam.
//
// When references fail, it returns the *ChunkMissingError and *RefError of all of them (Errors if several) and does not
// judge the rest; otherwise a *catalog.ValidationError with fields as paths into the resource. Any other error is the
// ChunkReader's own: nothing is known then.
func Assemble(ctx context.Context, content *v1alpha1.ExamContent, chunks ChunkReader) (catalog.Exam, error) {
	a := assembler{content: content, chunks: chunks, budget: MaxExamBytes}
	if err := a.run(ctx); err != nil {
		return catalog.Exam{}, err
	}
	if len(a.refErrors) == 1 {
		return catalog.Exam{}, a.refErrors[0]
	}
	if len(a.refErrors) > 1 {
		return catalog.Exam{}, a.refErrors
	}
	if invalid := a.validate(); invalid != nil {
		return catalog.Exam{}, invalid
	}
	return a.exam, nil
}

// assembler does Assemble's work and keeps what Lint needs to find the place of a problem.
type assembler struct {
	content *v1alpha1.ExamContent
	chunks  ChunkReader
	// budget is how many bytes of chunk text may still be read.
	budget int
	// warn asks findings for warnings.
	warn bool

	// What run finds.
	exam      catalog.Exam
	refErrors Errors
	// problems are what the domain types cannot express, like two kinds of answer in one.
	problems []catalog.Problem
	// warnings are what findings came upon that prevents no publication.
	warnings []catalog.Problem
	// spans tell, for each paper, how many questions each of its chunks holds, in order; none for inline questions.
	spans [][]int
}

// run converts the resource. It fails only when the ChunkReader does.
func (a *assembler) run(ctx context.Context) error {
	d, err := schemaDefaults()
	if err != nil {
		return err
	}
	a.exam = examOf(&a.content.Spec)
	a.spans = make([][]int, len(a.content.Spec.Papers))
	for i := range a.content.Spec.Papers {
		source := &a.content.Spec.Papers[i]
		paper := paperOf(source)
		questions := source.Questions
		if len(source.Questions) > 0 && len(source.QuestionsFrom) > 0 {
			a.problem(fmt.Sprintf("papers[%d].questionsFrom", i), "give either questions or questionsFrom, not both")
		} else if len(source.QuestionsFrom) > 0 {
			chunked, err := a.readChunks(ctx, i)
			if err != nil {
				return err
			}
			questions = chunked
		}
		paper.Questions = make([]catalog.Question, len(questions))
		for j := range questions {
			var complaint string
			paper.Questions[j], complaint = questionOf(&questions[j], d)
			if complaint != "" {
				a.problem(fmt.Sprintf("papers[%d].questions[%d].answer", i, j), complaint)
			}
		}
		a.exam.Papers = append(a.exam.Papers, paper)
	}
	return nil
}

func (a *assembler) problem(field, detail string) {
	a.problems = append(a.problems, catalog.Problem{Field: field, Detail: detail})
}

func (a *assembler) readChunks(ctx context.Context, paper int) ([]v1alpha1.Question, error) {
	var all []v1alpha1.Question
	for k, source := range a.content.Spec.Papers[paper].QuestionsFrom {
		field := fmt.Sprintf("spec.papers[%d].questionsFrom[%d]", paper, k)
		questions, err := a.readChunk(ctx, source)
		var missing *ChunkMissingError
		var invalid *ChunkError
		var digest *ChunkDigestError
		switch {
		case err == nil:
		case errors.As(err, &missing):
			located := *missing
			located.Field = field
			a.refErrors = append(a.refErrors, &located)
		case errors.As(err, &invalid), errors.As(err, &digest):
			ref := source.ConfigMapKeyRef
			a.refErrors = append(a.refErrors, &RefError{
				Field:  field,
				Detail: fmt.Sprintf("ConfigMap %s, key %s: %v", ref.Name, ref.Key, err),
				Err:    err,
			})
		default:
			return nil, fmt.Errorf("%s: %w", field, err)
		}
		all = append(all, questions...)
		a.spans[paper] = append(a.spans[paper], len(questions))
	}
	return all, nil
}

func (a *assembler) readChunk(ctx context.Context, source v1alpha1.QuestionSource) ([]v1alpha1.Question, error) {
	ref := source.ConfigMapKeyRef
	raw, err := a.chunks.ReadChunk(ctx, a.content.Namespace, ref.Name, ref.Key)
	if err != nil {
		return nil, err
	}
	if have := ChunkDigest(raw); source.Digest != "" && source.Digest != have {
		return nil, &ChunkDigestError{Want: source.Digest, Have: have}
	}
	text, err := chunkText(raw, MaxChunkBytes)
	if err != nil {
		return nil, err
	}
	if a.budget -= len(text); a.budget < 0 {
		return nil, &ChunkError{Detail: fmt.Sprintf("the exam's chunks hold more than %d bytes of text together", MaxExamBytes)}
	}
	return decodeChunkText(text)
}

// validate returns a *catalog.ValidationError whose fields lead into the resource, or nil. Questions of a chunk have no
// path there: the reference is named, and the question in the detail.
func (a *assembler) validate() error {
	problems, omitted, err := a.findings()
	if err != nil {
		return err
	}
	if len(problems) == 0 {
		return nil
	}
	for i, problem := range problems {
		problems[i] = a.inResource(problem)
	}
	if extra := len(problems) - catalog.MaxProblems; extra > 0 {
		problems, omitted = problems[:catalog.MaxProblems], omitted+extra
	}
	return &catalog.ValidationError{Problems: problems, Omitted: omitted}
}

// findings are the problems by the exam's own paths. An answer that gives no or several kinds is reported as such, not
// again as what is left of it.
func (a *assembler) findings() (problems []catalog.Problem, omitted int, err error) {
	problems = a.problems
	known := make(map[string]bool, len(problems))
	for _, problem := range problems {
		known[problem.Field] = true
	}
	validate := func() error { return catalog.Validate(a.exam) }
	if a.warn {
		validate = func() (err error) {
			a.warnings, err = catalog.Inspect(a.exam)
			return err
		}
	}
	var invalid *catalog.ValidationError
	if err := validate(); errors.As(err, &invalid) {
		for _, problem := range invalid.Problems {
			if answer, _, _ := cutAfter(problem.Field, ".answer"); !known[answer] {
				problems = append(problems, problem)
			}
		}
		return problems, invalid.Omitted, nil
	} else if err != nil {
		return nil, 0, err
	}
	return problems, 0, nil
}

// cutAfter splits text behind the first mark, which stays in before.
func cutAfter(text, mark string) (before, after string, found bool) {
	before, after, found = strings.Cut(text, mark)
	if found {
		before += mark
	}
	return before, after, found
}

func (a *assembler) inResource(problem catalog.Problem) catalog.Problem {
	p := parsePath(problem.Field)
	place, chunked := a.origin(p)
	if !chunked {
		return catalog.Problem{Field: "spec." + problem.Field, Detail: problem.Detail}
	}
	ref := a.content.Spec.Papers[place.paper].QuestionsFrom[place.chunk].ConfigMapKeyRef
	question := a.exam.Papers[place.paper].Questions[p[3].index]
	var field string
	if tail := p[4:]; len(tail) > 0 {
		field = ", " + tail.String()
	}
	return catalog.Problem{
		Field: fmt.Sprintf("spec.papers[%d].questionsFrom[%d]", place.paper, place.chunk),
		Detail: fmt.Sprintf("ConfigMap %s, key %s, question %s%s: %s",
			ref.Name, ref.Key, catalog.AnswerID(question.Section, question.Number), field, problem.Detail),
	}
}

// chunkPlace is a question in a chunk.
type chunkPlace struct{ paper, chunk, question int }

// origin finds the chunk that p, a path like papers[2].questions[14].answer, leads into.
func (a *assembler) origin(p path) (place chunkPlace, chunked bool) {
	if len(p) < 4 || p[0].key != "papers" || p[2].key != "questions" || p[1].index >= len(a.spans) {
		return chunkPlace{}, false
	}
	index := p[3].index
	for chunk, count := range a.spans[p[1].index] {
		if index < count {
			return chunkPlace{paper: p[1].index, chunk: chunk, question: index}, true
		}
		index -= count
	}
	return chunkPlace{}, false
}
