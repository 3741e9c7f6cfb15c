package sheet

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/xuri/excelize/v2"

	"examprep.dev/server/content/fields"
)

// explanations is the sheet of the template that explains the columns. Imports skip it.
const explanations = "columns"

// WriteTemplateCSV creates a CSV file for each sheet in a folder, with a header and one row as an example. It replaces no file, and leaves none
// if it fails.
func WriteTemplateCSV(folder string) (files []string, err error) {
	if err := os.MkdirAll(folder, 0o755); err != nil { //nolint:gosec // a folder for the user's own files, with usual rights
		return nil, fmt.Errorf("template: %w", err)
	}
	defer func() {
		if err != nil {
			for _, name := range files {
				err = errors.Join(err, os.Remove(name))
			}
			files = nil
		}
	}()
	for _, record := range fields.Records() {
		name := filepath.Join(folder, record.Sheet+".csv")
		if err := create(name, func(w io.Writer) error { return writeCSV(w, record) }); err != nil {
			return files, err
		}
		files = append(files, name)
	}
	return files, nil
}

// create writes a new file. It removes the file again if write fails.
func create(name string, write func(io.Writer) error) error {
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644) //nolint:gosec // the user's own file, with usual rights
	if err != nil {
		return fmt.Errorf("template: %w", err)
	}
	if err := errors.Join(write(file), file.Close()); err != nil {
		return errors.Join(fmt.Errorf("template: %s: %w", name, err), os.Remove(name))
	}
	return nil
}

func writeCSV(w io.Writer, record fields.Record) error {
	writer := csv.NewWriter(w)
	columns := record.Columns()
	example := make([]string, len(columns))
	for i, column := range columns {
		example[i] = record.Example(column)
	}
	if err := errors.Join(writer.Write(columns), writer.Write(example)); err != nil {
		return err
	}
	writer.Flush()
	return writer.Error()
}

// WriteTemplateXLSX creates a workbook with all sheets and one that explains the columns. Columns of texts have the format of texts, so that
// programs keep what is typed. It replaces no file.
func WriteTemplateXLSX(name string) (err error) {
	schema, err := fields.ReadSchema()
	if err != nil {
		return err
	}
	book := excelize.NewFile()
	defer func() { err = errors.Join(err, book.Close()) }()
	t, err := newTemplate(book)
	if err != nil {
		return fmt.Errorf("template: %w", err)
	}
	for i, record := range fields.Records() {
		if err := t.sheet(i, record, schema); err != nil {
			return fmt.Errorf("template: sheet %s: %w", record.Sheet, err)
		}
	}
	if err := t.explain(schema); err != nil {
		return fmt.Errorf("template: sheet %s: %w", explanations, err)
	}
	return create(name, func(w io.Writer) error { return book.Write(w) })
}

// template writes sheets of a workbook.
type template struct {
	book *excelize.File
	// styles of texts, of names of columns, and of those that are required.
	text, header, required int
}

const textFormat = 49 // @

func newTemplate(book *excelize.File) (*template, error) {
	t := &template{book: book}
	var failed error
	style := func(s *excelize.Style) int {
		id, err := book.NewStyle(s)
		failed = errors.Join(failed, err)
		return id
	}
	t.text = style(&excelize.Style{NumFmt: textFormat})
	t.header = style(&excelize.Style{NumFmt: textFormat, Font: &excelize.Font{Bold: true}})
	t.required = style(&excelize.Style{NumFmt: textFormat, Font: &excelize.Font{Bold: true}, Fill: excelize.Fill{Type: "pattern", Pattern: 1, Color: []string{"FFF2CC"}}})
	return t, failed
}

// add makes a sheet, the first one from that of a new workbook.
func (t *template) add(index int, name string) error {
	if index == 0 {
		return t.book.SetSheetName(t.book.GetSheetName(0), name)
	}
	_, err := t.book.NewSheet(name)
	return err
}

func (t *template) sheet(index int, record fields.Record, schema fields.Schema) error {
	if err := t.add(index, record.Sheet); err != nil {
		return err
	}
	for i, column := range record.Columns() {
		field, _ := record.Column(column)
		letter, err := excelize.ColumnNumberToName(i + 1)
		if err != nil {
			return err
		}
		var styled error
		if isText(field.Type) {
			styled = t.book.SetColStyle(record.Sheet, letter, t.text)
		}
		style := t.header
		if schema.Required(record, field) {
			style = t.required
		}
		if err := errors.Join(styled, t.book.SetColWidth(record.Sheet, letter, letter, width(column, field)),
			t.book.SetCellStr(record.Sheet, letter+"1", column), t.book.SetCellStyle(record.Sheet, letter+"1", letter+"1", style),
			t.example(record, column, letter+"2")); err != nil {
			return err
		}
	}
	return t.book.SetPanes(record.Sheet, &excelize.Panes{Freeze: true, YSplit: 1, TopLeftCell: "A2", ActivePane: "bottomLeft"})
}

func (t *template) example(record fields.Record, column, cell string) error {
	field, _ := record.Column(column)
	text := record.Example(column)
	switch {
	case text == "":
		return nil
	case isText(field.Type):
		return errors.Join(t.book.SetCellStr(record.Sheet, cell, text), t.book.SetCellStyle(record.Sheet, cell, cell, t.text))
	case field.Type == fields.Boolean:
		return t.book.SetCellBool(record.Sheet, cell, text == "true")
	default:
		return t.book.SetCellDefault(record.Sheet, cell, text) // as a number
	}
}

// isText reports whether the cells of a type are texts.
func isText(kind fields.Type) bool {
	return kind != fields.Whole && kind != fields.Number && kind != fields.Boolean
}

func width(column string, field fields.Field) float64 {
	if column == "prompt" || column == "explanation" {
		return 60
	}
	return float64(max(len(column), min(len(field.Example), 30)) + 3)
}

// explain writes the sheet that explains the columns.
func (t *template) explain(schema fields.Schema) error {
	if err := t.add(1, explanations); err != nil {
		return err
	}
	row := 1
	write := func(style int, cells ...string) error {
		var failed error
		for i, text := range cells {
			cell, err := excelize.CoordinatesToCellName(i+1, row)
			failed = errors.Join(failed, err, t.book.SetCellStr(explanations, cell, text), t.book.SetCellStyle(explanations, cell, cell, style))
		}
		row++
		return failed
	}
	failed := write(t.header, "sheet", "column", "required", "type", "limits", "meaning")
	for _, record := range fields.Records() {
		for _, field := range record.Fields {
			if field.Column == "" {
				continue
			}
			name, required := field.Column, "no"
			if field.Through != "" {
				name += " to " + field.Through
			}
			if schema.Required(record, field) {
				required = "yes"
			}
			failed = errors.Join(failed, write(t.text, record.Sheet, name, required, string(field.Type), schema.Limits(record, field), strings.ReplaceAll(field.About, "`", "")))
		}
	}
	for column, size := range map[string]float64{"A": 12, "B": 18, "C": 10, "D": 16, "E": 28, "F": 110} {
		failed = errors.Join(failed, t.book.SetColWidth(explanations, column, column, size))
	}
	return failed
}
