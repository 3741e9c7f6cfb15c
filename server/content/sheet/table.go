package sheet

import (
	"fmt"
	"slices"
	"strings"

	"examprep.dev/server/content"
	"examprep.dev/server/content/fields"
	"examprep.dev/server/content/sheet/grid"
	"examprep.dev/server/content/syntax"
)

// maxProblems bounds the list of problems of an input.
const maxProblems = 10_000

// table is a sheet of a workbook or a CSV file.
type table struct {
	record fields.Record
	// file is the name of the file, and sheet that of the sheet; empty for a CSV file.
	file, sheet string
	size        int64
	// rows begin with the names of the columns.
	rows grid.Rows
	// columns are the numbers of columns, from 0, by name.
	columns map[string]int
	// required are the columns of which no cell can be empty.
	required []string
}

// position returns the position of a cell in the table.
func (t *table) position(line, column int) syntax.Position {
	return syntax.Position{File: t.file, Sheet: t.sheet, Line: line, Column: column}
}

// place returns the position of the value at a path below a record, of a row by its line.
func (t *table) place(line int, path syntax.Path) (syntax.Position, string) {
	name := t.record.ColumnOf(path)
	column, known := t.columns[name]
	switch {
	case name == "":
		return t.position(line, 0), path.String()
	case t.sheet != "" && known:
		return t.position(line, column+1), name
	default: // the columns of a CSV file count characters
		return t.position(line, 0), name
	}
}

// readHeader reads the names of the columns. It reports false, and the problems, if the rows cannot be read.
func (r *reader) readHeader(t *table, header grid.Row) bool {
	before := len(r.problems)
	t.columns = make(map[string]int)
	known := t.record.Columns()
	for i := range header.Cells {
		cell := &header.Cells[i]
		name := strings.TrimSpace(cell.Text)
		at := t.position(cell.Line, cell.Column)
		_, again := t.columns[name]
		switch {
		case name == "": // cells below it are a problem
		case !slices.Contains(known, name):
			r.reportf(at, name, "is not a column of %s%s; its columns are %s", t.record.Sheet, suggestion(name, known), strings.Join(known, ", "))
		case again:
			r.reportf(at, name, "is a column already")
		default:
			t.columns[name] = i
		}
	}
	for _, name := range t.required {
		if _, ok := t.columns[name]; !ok {
			r.reportf(t.position(header.Line, 0), name, "the column is missing")
		}
	}
	return len(r.problems) == before
}

// suggestion names the column that differs from name only in case, spaces, hyphens and underscores.
func suggestion(name string, known []string) string {
	simple := func(text string) string {
		return strings.ToLower(strings.NewReplacer(" ", "", "-", "", "_", "").Replace(text))
	}
	for _, candidate := range known {
		if simple(candidate) == simple(name) {
			return fmt.Sprintf(" (did you mean %s?)", candidate)
		}
	}
	return ""
}

// reportf adds an error.
func (r *reader) reportf(at syntax.Position, field, format string, args ...any) {
	r.add(content.Problem{Position: at, Field: field, Detail: fmt.Sprintf(format, args...)})
}

// warnf adds a warning.
func (r *reader) warnf(at syntax.Position, field, format string, args ...any) {
	r.add(content.Problem{Position: at, Field: field, Detail: fmt.Sprintf(format, args...), Severity: content.SeverityWarning})
}

func (r *reader) add(problem content.Problem) {
	switch {
	case len(r.problems) < maxProblems:
		r.problems = append(r.problems, problem)
	case !r.full:
		r.full = true
		r.problems = append(r.problems, content.Problem{
			Position: problem.Position, Detail: fmt.Sprintf("the input has more than %d problems; the rest is not read", maxProblems),
		})
	}
}
