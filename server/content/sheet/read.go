package sheet

import (
	"context"
	"errors"
	"strings"

	"examprep.dev/api/v1alpha1"
	"examprep.dev/server/content"
	"examprep.dev/server/content/fields"
	"examprep.dev/server/content/importer"
	"examprep.dev/server/content/progress"
	"examprep.dev/server/content/sheet/grid"
	"examprep.dev/server/content/syntax"
)

// source has the tables of an input.
type source interface {
	// open opens the table of a record, or returns nil if there is none.
	open(record fields.Record) (*table, error)
	// name is the name of the input.
	name() string
	close() error
}

// reader holds the input in memory, because answers are checked against a whole paper.
type reader struct {
	source source
	tables map[string]*table // by the name of the sheet
	exams  []*readExam
	byKey  map[string]*readExam
	papers map[string]*readPaper

	problems []content.Problem
	ignored  map[string]int
	// full reports whether the list of problems has reached its limit.
	full bool
}

// readExam is an exam with the lines of its parts.
type readExam struct {
	spec                                  v1alpha1.ExamContentSpec
	line                                  int
	papers                                []*readPaper
	sections, official, pastPapers, steps []int
}

type readPaper struct {
	value v1alpha1.Paper
	line  int
	// lines are the lines of its questions.
	lines []int
}

// read reads all tables of a source and closes it.
func read(ctx context.Context, s source) (*importer.Input, error) {
	r := &reader{source: s, tables: make(map[string]*table), byKey: make(map[string]*readExam), papers: make(map[string]*readPaper), ignored: make(map[string]int)}
	err := r.readAll(ctx)
	if err := errors.Join(err, s.close()); err != nil {
		return nil, err
	}
	return r.input(), nil
}

func (r *reader) readAll(ctx context.Context) error {
	schema, err := fields.ReadSchema()
	if err != nil {
		return err
	}
	rows := map[string]func(*values){
		"exams": r.exam, "papers": r.paper, "questions": r.question, "sections": r.section, "links": r.link, "steps": r.step,
	}
	for _, record := range fields.Records() {
		if err := r.readTable(ctx, record, schema, rows[record.Sheet]); err != nil {
			return err
		}
	}
	if len(r.problems) > 0 {
		return nil // a row that could not be read would be missed a second time
	}
	r.checkParts()
	return nil
}

// readTable reads a table and calls use for each row. An invalid file is a problem; readTable returns other errors.
func (r *reader) readTable(ctx context.Context, record fields.Record, schema fields.Schema, use func(*values)) error {
	t, err := r.source.open(record)
	if t == nil && err == nil {
		if !record.Optional {
			r.reportf(syntax.Position{File: r.source.name()}, "", "has no %s", record.Sheet)
		}
		return nil
	}
	if err == nil {
		for _, field := range record.Fields {
			if schema.Required(record, field) && field.Column != "" {
				t.required = append(t.required, field.Column)
			}
		}
		r.tables[record.Sheet] = t
		err = r.readRows(ctx, t, use)
	}
	failed, ok := errors.AsType[*grid.Error](err)
	if !ok {
		return err
	}
	at := syntax.Position{File: r.source.name(), Sheet: failed.Sheet, Line: failed.Line, Column: failed.Column}
	if t != nil {
		at.File = t.file
	} else if named, ok := errors.AsType[*fileError](err); ok {
		at.File = named.file
	}
	r.reportf(at, "", "%s", failed.Detail)
	return nil
}

func (r *reader) readRows(ctx context.Context, t *table, use func(*values)) error {
	steps := progress.From(ctx)
	steps.Start("reading "+t.record.Sheet, t.size, progress.Bytes)
	offset, headed := int64(0), false
	for row, err := range t.rows {
		if err := errors.Join(err, ctx.Err()); err != nil {
			return err
		}
		steps.Add(row.Offset - offset)
		offset = row.Offset
		switch {
		case r.full:
			return nil
		case !headed:
			if headed = true; !r.readHeader(t, row) {
				return nil
			}
		case !isBlank(row):
			v := &values{reader: r, table: t, row: row}
			r.checkRow(v)
			use(v)
		}
	}
	if !headed {
		r.reportf(t.position(0, 0), "", "is empty: its first row must have the names of the columns")
	}
	return nil
}

func isBlank(row grid.Row) bool {
	for i := range row.Cells {
		if cell := &row.Cells[i]; cell.Kind != grid.Empty && (cell.Kind != grid.Text || strings.TrimSpace(cell.Text) != "") {
			return false
		}
	}
	return true
}

// checkRow reports cells without a column and required cells that are empty.
func (r *reader) checkRow(v *values) {
	for i := range v.row.Cells {
		cell := &v.row.Cells[i]
		if cell.Kind != grid.Empty && !v.table.has(i) {
			r.reportf(v.table.position(cell.Line, cell.Column), "", "the cell has no column: the first row has no name above it")
		}
	}
	for _, name := range v.table.required {
		cell := v.cell(name)
		if cell.Kind == grid.Empty || cell.Kind == grid.Text && strings.TrimSpace(cell.Text) == "" {
			at, _ := v.table.place(v.row.Line, nil)
			if v.table.sheet != "" {
				at.Column = v.table.columns[name] + 1
			}
			r.reportf(at, name, "is required")
		}
	}
}

// has reports whether a column has a name.
func (t *table) has(index int) bool {
	for _, known := range t.columns {
		if known == index {
			return true
		}
	}
	return false
}

// checkParts reports exams without papers and papers without questions.
func (r *reader) checkParts() {
	for _, exam := range r.exams {
		if len(exam.papers) == 0 {
			at, name := r.tables["exams"].place(exam.line, syntax.Path{}.Field("examKey"))
			r.reportf(at, name, "exam %s has no paper", exam.spec.ExamKey)
		}
		for _, paper := range exam.papers {
			if len(paper.lines) == 0 {
				at, name := r.tables["papers"].place(paper.line, syntax.Path{}.Field("paperID"))
				r.reportf(at, name, "paper %s has no question", paper.value.PaperID)
			}
		}
	}
}

// input returns what was read.
func (r *reader) input() *importer.Input {
	in := &importer.Input{Problems: r.problems, Ignored: r.ignored, Place: r.place}
	for _, exam := range r.exams {
		for _, paper := range exam.papers {
			exam.spec.Papers = append(exam.spec.Papers, paper.value)
			paper.value.Questions = nil // the importer releases them
		}
		in.Exams = append(in.Exams, importer.Exam{Spec: exam.spec})
	}
	return in
}

// place is the [importer.Input.Place] of sheets.
func (r *reader) place(exam int, path syntax.Path) (syntax.Position, string) {
	found := r.exams[exam]
	name := func(i int) string {
		if i < len(path) {
			return path[i].Key
		}
		return ""
	}
	inList := func(at int, sheet string, lines []int) (syntax.Position, string, bool) {
		if at >= len(path) || path[at].Key != "" || path[at].Index >= len(lines) {
			return syntax.Position{}, "", false
		}
		position, field := r.tables[sheet].place(lines[path[at].Index], path[at+1:])
		return position, field, true
	}
	var at syntax.Position
	field, ok := "", false
	switch {
	case name(0) == "papers" && len(path) > 1 && path[1].Index < len(found.papers):
		paper := found.papers[path[1].Index]
		if path = path[2:]; name(0) == "questions" {
			at, field, ok = inList(1, "questions", paper.lines)
		}
		if !ok {
			at, field = r.tables["papers"].place(paper.line, path)
		}
		return at, field
	case name(0) == "sections":
		at, field, ok = inList(1, "sections", found.sections)
	case name(1) == "officialSites":
		at, field, ok = inList(2, "links", found.official)
	case name(1) == "pastQuestionsSources":
		at, field, ok = inList(2, "links", found.pastPapers)
	case name(1) == "steps":
		at, field, ok = inList(2, "steps", found.steps)
	}
	if ok {
		return at, field
	}
	return r.tables["exams"].place(found.line, path)
}
