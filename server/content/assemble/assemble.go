package assemble

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"examprep.dev/api/v1alpha1"
	"examprep.dev/server/catalog"
	"examprep.dev/server/content/syntax"
)

// Errors are several errors. errors.As and errors.Is examine each.
type Errors []error

func (e Errors) Error() string {
	texts := make([]string, len(e))
	for i, err := range e {
		texts[i] = err.Error()
	}
	return strings.Join(texts, "; ")
}

// maxRefused bounds the list of refused references: an exam has thousands of them.
const maxRefused = 20

// OmittedError is the last of the Errors if more references were refused than are listed. It counts the others by their error.
type OmittedError struct{ Missing, Digests, Invalid int }

func (e *OmittedError) Error() string {
	return fmt.Sprintf("and %d more references that cannot be used", e.Missing+e.Digests+e.Invalid)
}

// Unwrap returns the single errors.
func (e Errors) Unwrap() []error { return e }

// RefError is returned for a reference that cannot be used. The resource or the ConfigMap must change.
type RefError struct {
	// Field is the reference's path, like `spec.papers[2].questionsFrom[0]`.
	Field  string
	Detail string
	// Err is a *ChunkError or *ChunkDigestError, or nil.
	Err error
}

func (e *RefError) Error() string { return e.Field + ": " + e.Detail }

// Unwrap returns the cause, or nil.
func (e *RefError) Unwrap() error { return e.Err }

// ChunkDigestError is returned for a chunk with another digest than the resource declares. It can disappear by itself, because a change of
// resource and ConfigMap can arrive in two parts.
type ChunkDigestError struct{ Want, Have string }

func (e *ChunkDigestError) Error() string {
	return fmt.Sprintf("the chunk's digest is %s, declared is %s", e.Have, e.Want)
}

// ChunkMissingError is returned if a referenced ConfigMap, or a key in it, does not exist (yet).
type ChunkMissingError struct {
	// Field is the path of the reference. A ChunkReader leaves it empty; Assemble sets it.
	Field                string
	Namespace, Name, Key string
	// KeyMissing is true if the ConfigMap exists without the key.
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
// If references fail, it returns the *ChunkMissingError and *RefError of the first of them (Errors if there are several; an *OmittedError counts
// the others) and does not validate the rest. Otherwise it returns a *catalog.ValidationError with fields as paths into the resource. Any other error is the ChunkReader's.
func Assemble(ctx context.Context, content *v1alpha1.ExamContent, chunks ChunkReader) (catalog.ValidExam, error) {
	a, err := Read(ctx, content, chunks)
	if err != nil {
		return catalog.ValidExam{}, err
	}
	return a.Valid()
}

// Read turns a resource and the chunks it refers to into an exam, without validation. It fails only if the ChunkReader does.
func Read(ctx context.Context, content *v1alpha1.ExamContent, chunks ChunkReader) (*Assembled, error) {
	a := &Assembled{content: content, chunks: chunks, budget: MaxExamBytes}
	if err := a.run(ctx); err != nil {
		return nil, err
	}
	return a, nil
}

// Assembled is an exam that was read from a resource and its chunks. It knows the source of each question.
type Assembled struct {
	// Exam is the exam. It lacks the questions of the references in Refused.
	Exam catalog.Exam
	// Refused are the *ChunkMissingError and *RefError of references, and an *OmittedError if there are more.
	Refused Errors
	// Problems are answers of no kind or of several kinds, which an Exam cannot express. Fields are paths into Exam.
	Problems []catalog.Problem

	content *v1alpha1.ExamContent
	chunks  ChunkReader
	omitted *OmittedError
	// budget is how many bytes of chunks can still be read.
	budget int
	// spans are, for each paper, the numbers of questions of its chunks, in order; none for inline questions.
	spans [][]int
}

// Valid returns the exam if it can be published. It fails like Assemble.
func (a *Assembled) Valid() (catalog.ValidExam, error) {
	switch len(a.Refused) {
	case 0:
	case 1:
		return catalog.ValidExam{}, a.Refused[0]
	default:
		return catalog.ValidExam{}, a.Refused
	}
	valid, err := catalog.Validate(a.Exam)
	findings, err := a.findings(err)
	if err != nil {
		return catalog.ValidExam{}, err
	}
	if invalid := a.invalid(findings); invalid != nil {
		return catalog.ValidExam{}, invalid
	}
	return valid, nil
}

// run converts the resource. It fails only if the ChunkReader does.
func (a *Assembled) run(ctx context.Context) error {
	a.Exam = examOf(&a.content.Spec)
	a.spans = make([][]int, len(a.content.Spec.Papers))
	for i := range a.content.Spec.Papers {
		source := &a.content.Spec.Papers[i]
		paper := paperOf(source)
		questions := source.Questions
		if len(source.QuestionsFrom) > 0 {
			chunked, err := a.readChunks(ctx, i)
			if err != nil {
				return err
			}
			questions = chunked
		}
		paper.Questions = make([]catalog.Question, len(questions))
		for j := range questions {
			var complaint string
			paper.Questions[j], complaint = questionOf(&questions[j])
			if complaint != "" {
				a.Problems = append(a.Problems, catalog.Problem{Field: fmt.Sprintf("papers[%d].questions[%d].answer", i, j), Detail: complaint})
			}
		}
		a.Exam.Papers = append(a.Exam.Papers, paper)
	}
	return nil
}

func (a *Assembled) readChunks(ctx context.Context, paper int) ([]v1alpha1.Question, error) {
	var all []v1alpha1.Question
	for k, source := range a.content.Spec.Papers[paper].QuestionsFrom {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
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
			a.refuse(&located)
		case errors.As(err, &invalid), errors.As(err, &digest):
			ref := source.ConfigMapKeyRef
			a.refuse(&RefError{
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

func (a *Assembled) readChunk(ctx context.Context, source v1alpha1.QuestionSource) ([]v1alpha1.Question, error) {
	ref := source.ConfigMapKeyRef
	raw, err := a.chunks.ReadChunk(ctx, a.content.Namespace, ref.Name, ref.Key)
	if err != nil {
		return nil, err
	}
	if err := a.spend(0); err != nil {
		return nil, err
	}
	if source.Digest != "" {
		if have := ChunkDigest(raw); source.Digest != have {
			_ = a.spend(len(raw)) // the next chunk is refused then
			return nil, &ChunkDigestError{Want: source.Digest, Have: have}
		}
	}
	text, read, err := chunkText(raw, MaxChunkBytes)
	if spent := a.spend(read); err == nil {
		err = spent
	}
	if err != nil {
		return nil, err
	}
	decoded := decodeChunk(text)
	if len(decoded.problems) > 0 {
		return nil, &decoded.problems[0]
	}
	needed := max(decoded.size.Bytes, decoded.size.Values*valueBytes+len(decoded.questions)*questionBytes)
	return decoded.questions, a.spend(max(0, needed-read))
}

// spend takes bytes from the budget. It returns an error if the budget is used up.
func (a *Assembled) spend(bytes int) error {
	if a.budget -= bytes; a.budget < 0 {
		return &ChunkError{Detail: fmt.Sprintf("the exam's chunks hold more than %d bytes of text together", MaxExamBytes)}
	}
	return nil
}

// refuse adds an error to Refused, or counts it.
func (a *Assembled) refuse(err error) {
	if len(a.Refused) < maxRefused {
		a.Refused = append(a.Refused, err)
		return
	}
	if a.omitted == nil {
		a.omitted = &OmittedError{}
		a.Refused = append(a.Refused, a.omitted)
	}
	var missing *ChunkMissingError
	var digest *ChunkDigestError
	switch {
	case errors.As(err, &missing):
		a.omitted.Missing++
	case errors.As(err, &digest):
		a.omitted.Digests++
	default:
		a.omitted.Invalid++
	}
}

// Findings are the problems of an exam by the catalogue's rules. Fields are paths into the exam.
type Findings struct {
	Problems []catalog.Problem
	// Omitted is how many more problems there are.
	Omitted int
	// Warnings prevent no publication.
	Warnings []catalog.Problem
}

// Findings validates the exam. It does not report an answer of no kind or of several kinds a second time.
func (a *Assembled) Findings() (Findings, error) {
	warnings, err := catalog.Inspect(a.Exam)
	found, err := a.findings(err)
	found.Warnings = warnings
	return found, err
}

// findings adds the problems of err, which is the catalogue's.
func (a *Assembled) findings(err error) (Findings, error) {
	found := Findings{Problems: slices.Clone(a.Problems)}
	invalid, ok := errors.AsType[*catalog.ValidationError](err)
	if !ok {
		return found, err
	}
	known := make(map[string]bool, len(a.Problems))
	for _, problem := range a.Problems {
		known[problem.Field] = true
	}
	for _, problem := range invalid.Problems {
		if before, _, cut := strings.Cut(problem.Field, ".answer"); !cut || !known[before+".answer"] {
			found.Problems = append(found.Problems, problem)
		}
	}
	found.Omitted = invalid.Omitted
	return found, nil
}

// Invalid returns a *catalog.ValidationError of Problems, or nil. Fields are paths into the resource.
func (a *Assembled) Invalid() error { return a.invalid(Findings{Problems: a.Problems}) }

func (a *Assembled) invalid(found Findings) error {
	if len(found.Problems) == 0 {
		return nil
	}
	invalid := &catalog.ValidationError{Omitted: found.Omitted}
	for _, problem := range found.Problems {
		if len(invalid.Problems) == catalog.MaxProblems {
			invalid.Omitted++
			continue
		}
		invalid.Problems = append(invalid.Problems, a.InResource(problem))
	}
	return invalid
}

// InResource returns a problem with a path into the resource. A question of a chunk has no such path: the field is the reference, and the
// detail names ConfigMap, key and question.
func (a *Assembled) InResource(problem catalog.Problem) catalog.Problem {
	source, chunked := a.Source(problem.Field)
	if !chunked {
		return catalog.Problem{Field: "spec." + problem.Field, Detail: problem.Detail}
	}
	var field string
	if len(source.Tail) > 0 {
		field = ", " + source.Tail.String()
	}
	return catalog.Problem{
		Field: source.Reference,
		Detail: fmt.Sprintf("ConfigMap %s, key %s, question %s%s: %s",
			source.ConfigMap, source.Key, source.AnswerID, field, problem.Detail),
	}
}

// Source is the source of a question that a chunk holds.
type Source struct {
	// Reference is the path of the reference, like `spec.papers[2].questionsFrom[0]`.
	Reference      string
	ConfigMap, Key string
	// Index is the index of the question in the chunk; AnswerID is its section and number.
	Index    int
	AnswerID string
	// Tail leads from the question to the value.
	Tail syntax.Path
}

// Source returns the source of a field of the exam, like papers[2].questions[14].answer. It reports false if no chunk holds the field.
func (a *Assembled) Source(field string) (Source, bool) {
	p := syntax.ParsePath(field)
	if len(p) < 4 || p[0].Key != "papers" || p[2].Key != "questions" || p[1].Index >= len(a.spans) {
		return Source{}, false
	}
	paper, index := p[1].Index, p[3].Index
	for chunk, count := range a.spans[paper] {
		if index >= count {
			index -= count
			continue
		}
		question := a.Exam.Papers[paper].Questions[p[3].Index]
		ref := a.content.Spec.Papers[paper].QuestionsFrom[chunk].ConfigMapKeyRef
		return Source{
			Reference: fmt.Sprintf("spec.papers[%d].questionsFrom[%d]", paper, chunk), ConfigMap: ref.Name, Key: ref.Key,
			Index: index, AnswerID: catalog.AnswerID(question.Section, question.Number), Tail: p[4:],
		}, true
	}
	return Source{}, false
}
