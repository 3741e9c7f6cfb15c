package catalog

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Problem is one broken rule. Field is a path by ExamContent's names, like "papers[2].questions[14].answer".
type Problem struct {
	Field  string `json:"field"`
	Detail string `json:"detail"`
}

// ValidationError lists what is wrong with an exam, in the order of its fields.
type ValidationError struct {
	Problems []Problem
	// Omitted counts the problems beyond the first MaxProblems.
	Omitted int
}

// MaxProblems bounds the list of a ValidationError: a broken chunk of questions has thousands.
const MaxProblems = 100

// MaxQuestions bounds the questions of a paper, in all its chunks.
const MaxQuestions = 10_000

func (e *ValidationError) Error() string {
	const shown = 5
	var b strings.Builder
	for i, problem := range e.Problems {
		if i == shown {
			fmt.Fprintf(&b, "; and %d more problems", len(e.Problems)-shown+e.Omitted)
			break
		}
		if i > 0 {
			b.WriteString("; ")
		}
		if problem.Field != "" {
			b.WriteString(problem.Field + ": ")
		}
		b.WriteString(problem.Detail)
	}
	return b.String()
}

// inspector gathers problems while it walks an exam. The path is kept as segments and spelled out only for a problem:
// an exam has tens of thousands of fields, nearly all of them right.
type inspector struct {
	path     []segment
	problems []Problem
	omitted  int
	// warn asks for warnings, which prevent no publication.
	warn     bool
	warnings []Problem
}

type segment struct {
	name string
	// index is the place in an array; -1 for an object.
	index int
}

func (v *inspector) at(name string, index int, inspect func()) {
	v.path = append(v.path, segment{name, index})
	inspect()
	v.path = v.path[:len(v.path)-1]
}

func (v *inspector) within(name string, inspect func()) { v.at(name, -1, inspect) }

// reportf notes a problem of the named field of where the inspector stands; field may be empty for the place itself.
func (v *inspector) reportf(field, format string, args ...any) {
	if len(v.problems) == MaxProblems {
		v.omitted++
		return
	}
	v.problems = append(v.problems, Problem{Field: v.field(field), Detail: fmt.Sprintf(format, args...)})
}

// warnf notes a warning, as reportf a problem.
func (v *inspector) warnf(field, format string, args ...any) {
	if v.warn && len(v.warnings) < MaxProblems {
		v.warnings = append(v.warnings, Problem{Field: v.field(field), Detail: fmt.Sprintf(format, args...)})
	}
}

// lenient turns what read reports into warnings. It reports whether there was nothing.
func (v *inspector) lenient(read func()) bool {
	problems, omitted := v.problems, v.omitted
	v.problems, v.omitted = nil, 0
	read()
	found := v.problems
	v.problems, v.omitted = problems, omitted
	if v.warn {
		v.warnings = append(v.warnings, found[:min(len(found), MaxProblems-min(len(v.warnings), MaxProblems))]...)
	}
	return len(found) == 0
}

// field spells the path of a field of the place where the inspector is.
func (v *inspector) field(field string) string {
	var b strings.Builder
	for _, s := range v.path {
		if b.Len() > 0 {
			b.WriteByte('.')
		}
		b.WriteString(s.name)
		if s.index >= 0 {
			b.WriteString("[" + strconv.Itoa(s.index) + "]")
		}
	}
	if b.Len() > 0 && field != "" && field[0] != '[' {
		b.WriteByte('.')
	}
	b.WriteString(field)
	return b.String()
}

func (v *inspector) err() error {
	if len(v.problems) == 0 {
		return nil
	}
	return &ValidationError{Problems: v.problems, Omitted: v.omitted}
}

// text checks an optional string: UTF-8, no character that a text cannot have, at most limit characters.
func (v *inspector) text(field, value string, limit int) bool {
	switch {
	case !utf8.ValidString(value):
		v.reportf(field, "must be valid UTF-8")
	case !v.checkCharacters(field, value):
	case len(value) > limit && utf8.RuneCountInString(value) > limit:
		v.reportf(field, "must have at most %d characters", limit)
	default:
		if v.warn {
			v.warnOfEscapes(field, value)
		}
		return true
	}
	return false
}

// required checks a string that must hold more than white space.
func (v *inspector) required(field, value string, limit int) bool {
	if strings.TrimSpace(value) == "" {
		v.reportf(field, "is required")
		return false
	}
	return v.text(field, value, limit)
}

func (v *inspector) between(field string, value, lowest, highest int) {
	if value < lowest || value > highest {
		v.reportf(field, "must be %d to %d, not %d", lowest, highest, value)
	}
}

// link checks an absolute http or https URL.
func (v *inspector) link(field, value string, limit int) {
	if !v.required(field, value, limit) {
		return
	}
	parsed, err := url.Parse(value)
	switch {
	case err != nil:
		v.reportf(field, "is not a URL")
	case parsed.Scheme != "https" && parsed.Scheme != "http":
		v.reportf(field, "must be an http or https URL")
	case parsed.Hostname() == "":
		v.reportf(field, "must name a host")
	case parsed.User != nil:
		v.reportf(field, "must not carry credentials")
	}
}
