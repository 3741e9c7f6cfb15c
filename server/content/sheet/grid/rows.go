package grid

import (
	"encoding/xml"
	"errors"
	"math"
	"strconv"
	"strings"
)

// The size of a sheet in XLSX.
const (
	maxSheetRows    = 1 << 20
	maxSheetColumns = 1 << 14
)

var errStop = errors.New("stop") // the caller wants no more rows

// Rows returns the rows of a sheet that have a cell. Merged cells are an error.
func (w *Workbook) Rows(sheet string) Rows {
	return func(yield func(Row, error) bool) {
		reader := &sheetReader{workbook: w, yield: yield}
		err := w.read(w.targets[sheet], reader.read)
		if err == nil || errors.Is(err, errStop) {
			return
		}
		if failed, ok := errors.AsType[*Error](err); ok {
			failed.Sheet = sheet
			if failed.Line == 0 {
				failed.Line = reader.row.Line
			}
		}
		yield(Row{}, err)
	}
}

type sheetReader struct {
	workbook *Workbook
	yield    func(Row, error) bool

	xml *xmlReader
	row Row
	// column is the column of the last cell.
	column int
	// width is the column of the last text in the first row; 0 before the end of that row. Cells to the right of it have no empty cells
	// before them: otherwise a row with one cell would cost as many as a sheet has columns.
	width int
}

func (r *sheetReader) read(x *xmlReader) error {
	r.xml = x
	for {
		token, err := x.next()
		if token == nil || err != nil {
			return err
		}
		switch token := token.(type) {
		case xml.StartElement:
			switch e := elementOf(token); e.name {
			case "row":
				err = r.startRow(e)
			case "c":
				err = r.cell(e)
			case "mergeCell":
				err = r.merged(e)
			}
		case xml.EndElement:
			if token.Name.Local == "row" && len(r.row.Cells) > 0 {
				if err = r.setWidth(); err == nil && !r.emit() {
					return errStop
				}
			}
		default:
		}
		if err != nil {
			return err
		}
	}
}

// emit passes the row on.
func (r *sheetReader) emit() bool {
	r.row.Offset = r.xml.decoder.InputOffset()
	return r.yield(r.row, nil)
}

// setWidth sets the width at the end of the first row.
func (r *sheetReader) setWidth() error {
	if r.width > 0 {
		return nil
	}
	r.width = 1
	for i := range r.row.Cells {
		if cell := &r.row.Cells[i]; strings.TrimSpace(cell.Text) != "" {
			r.width = i + 1
		}
	}
	if r.width > maxColumns {
		return errorf("has more than %d columns", maxColumns)
	}
	return nil
}

func (r *sheetReader) merged(e element) error {
	r.row.Line = 0
	return errorf("has merged cells %.40s: unmerge them, because only the first one has a value", e.attribute("ref"))
}

func (r *sheetReader) startRow(e element) error {
	line := r.row.Line + 1
	if number := e.attribute("r"); number != "" {
		parsed, err := strconv.Atoi(number)
		if err != nil || parsed < line {
			return errorf("has the row number %.20q after row %d", number, r.row.Line)
		}
		line = parsed
	}
	if line > maxSheetRows {
		return errorf("has more than %d rows", maxSheetRows)
	}
	clear(r.row.Cells)
	r.row = Row{Line: line, Cells: r.row.Cells[:0]}
	r.column = 0
	return nil
}

// cell reads a cell and adds it to the row.
func (r *sheetReader) cell(e element) error {
	column := r.column + 1
	if name := e.attribute("r"); name != "" {
		named, line, ok := parseName(name)
		if !ok || line != r.row.Line || named < column {
			return errorf("has a cell %.20q in the wrong place", name)
		}
		column = named
	}
	if column > maxSheetColumns {
		return errorf("has more than %d columns", maxSheetColumns)
	}
	r.column = column
	found, err := r.content()
	if err != nil {
		return err
	}
	cell, err := r.workbook.cell(e, found)
	if err != nil || cell.Kind == Empty {
		return err
	}
	cell.Line, cell.Column = r.row.Line, column
	before := column - 1 // cells
	if r.width > 0 {
		before = min(before, r.width)
	}
	for len(r.row.Cells) < before {
		r.row.Cells = append(r.row.Cells, Cell{Line: r.row.Line, Column: len(r.row.Cells) + 1})
	}
	r.row.Cells = append(r.row.Cells, cell)
	return nil
}

// contents are the parts of a cell.
type contents struct {
	value, formula []byte
	// text is the cell's own text; most cells share theirs.
	text       string
	hasFormula bool
}

// content reads a cell until its end.
func (r *sheetReader) content() (found contents, err error) {
	end := r.xml.depth
	var target *[]byte
	for {
		token, err := r.xml.next()
		if err != nil {
			return found, err
		}
		switch token := token.(type) {
		case xml.StartElement:
			switch token.Name.Local {
			case "v":
				target = &found.value
			case "f":
				target, found.hasFormula = &found.formula, true
			case "is":
				if found.text, err = r.xml.text(r.workbook.budget); err != nil {
					return found, err
				}
			}
		case xml.EndElement:
			target = nil
			if r.xml.depth < end {
				return found, nil
			}
		case xml.CharData:
			if target == nil {
				continue
			}
			if *target, err = appendText(*target, token, r.workbook.budget); err != nil {
				return found, err
			}
		case nil:
			return found, nil
		}
	}
}

// cell returns the cell of an element with these contents.
func (w *Workbook) cell(e element, found contents) (Cell, error) {
	value := string(found.value)
	if found.hasFormula {
		if formula := string(found.formula); formula == "TRUE()" || formula == "FALSE()" { // LibreOffice saves truth values as these constants
			return Cell{Kind: Boolean, Text: strings.TrimSuffix(formula, "()")}, nil
		}
		return Cell{Kind: Formula, Text: value}, nil
	}
	switch kind := e.attribute("t"); kind {
	case "inlineStr":
		return textCell(found.text), nil
	case "str":
		return textCell(unescape(value)), nil
	case "e":
		return Cell{Kind: Failure, Text: value}, nil
	case "d":
		return Cell{Kind: Date, Text: value}, nil
	case "s", "b", "n", "":
		if value == "" {
			return Cell{}, nil
		}
		return w.valueCell(e, kind, value)
	default:
		return Cell{}, errorf("has a cell of the unknown type %.20q", kind)
	}
}

// valueCell returns a cell with the value of an element. kind is "s" (the number of a shared text), "b", "n" or empty.
func (w *Workbook) valueCell(e element, kind, value string) (Cell, error) {
	switch kind {
	case "s":
		return w.sharedCell(value)
	case "b":
		if value != "0" && value != "1" {
			return Cell{}, errorf("has a cell with the truth value %.20q", value)
		}
		return Cell{Kind: Boolean, Text: map[string]string{"0": "FALSE", "1": "TRUE"}[value]}, nil
	default:
		return w.numberCell(e, value)
	}
}

func (w *Workbook) sharedCell(value string) (Cell, error) {
	index, err := strconv.Atoi(value)
	if err != nil || index < 0 || index >= len(w.strings) {
		return Cell{}, errorf("has a cell with the text number %.20q, which does not exist", value)
	}
	text := w.strings[index]
	if w.budget.text -= int64(len(text)); w.budget.text < 0 { // a text can be in many cells
		return Cell{}, errorf("has more than %d MiB of texts", maxTextBytes>>20)
	}
	return textCell(text), nil
}

func (w *Workbook) numberCell(e element, value string) (Cell, error) {
	number, err := strconv.ParseFloat(value, 64)
	if err != nil || math.IsInf(number, 0) || math.IsNaN(number) || strings.ContainsAny(value, "xX_pP") {
		return Cell{}, errorf("has a cell with the number %.40q", value)
	}
	style := formatGeneral
	if text := e.attribute("s"); text != "" {
		index, err := strconv.Atoi(text)
		if err != nil || index < 0 || index >= len(w.styles) {
			return Cell{}, errorf("has a cell with the style %.20q, which does not exist", text)
		}
		style = w.styles[index]
	}
	if style == formatDate {
		return Cell{Kind: Date, Text: value}, nil
	}
	return Cell{Kind: Number, Text: value, Formatted: style == formatOther}, nil
}

func textCell(text string) Cell {
	if text == "" {
		return Cell{}
	}
	return Cell{Kind: Text, Text: text}
}

// parseName reads the name of a cell.
func parseName(name string) (column, line int, ok bool) {
	i := 0
	for ; i < len(name) && i < 4 && 'A' <= name[i] && name[i] <= 'Z'; i++ {
		column = column*26 + int(name[i]-'A') + 1
	}
	line, err := strconv.Atoi(name[i:])
	return column, line, err == nil && i > 0 && line > 0
}
