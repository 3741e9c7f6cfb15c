package sheet

import (
	"encoding/json"
	"math"
	"regexp"
	"strconv"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"examprep.dev/server/content/sheet/grid"
)

// values reads the cells of a row by the names of their columns. A cell that cannot be read is a problem.
type values struct {
	reader *reader
	table  *table
	row    grid.Row
}

// separator separates the entries of a list in a cell.
const separator = ";"

var (
	// plainNumber is a number that a program stores as it was typed.
	plainNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?$`)
	// shortened is a long number as a program writes it to CSV.
	shortened = regexp.MustCompile(`^-?[0-9](\.[0-9]+)?E[+-][0-9]+$`)
	// failures are the errors that programs write to CSV.
	failures = regexp.MustCompile(`^(#(REF!|N/A|NAME\?|DIV/0!|VALUE!|NUM!|NULL!)|Err:[0-9]{3})$`)
)

// maxDigits is how many digits of a number spreadsheet programs keep.
const maxDigits = 15

// cell returns a cell. It is empty if the row or the table does not have it.
func (v *values) cell(name string) grid.Cell {
	index, ok := v.table.columns[name]
	if !ok || index >= len(v.row.Cells) {
		return grid.Cell{Line: v.row.Line}
	}
	return v.row.Cells[index]
}

func (v *values) reportf(name, format string, args ...any) {
	cell := v.cell(name)
	v.reader.reportf(v.table.position(cell.Line, cell.Column), name, format, args...)
}

// readable reports whether a cell has a value of some type. It reports the problems of other cells.
func (v *values) readable(name string, cell grid.Cell) bool {
	switch cell.Kind {
	case grid.Empty:
		return false
	case grid.Formula:
		v.reportf(name, "is a formula, and formulas are not evaluated: put its value into the cell")
	case grid.Date:
		v.reportf(name, "is a date or a time: format the cell as text and type the value again")
	case grid.Failure:
		v.reportf(name, "is the error %.20s", cell.Text)
	case grid.Undecodable:
		v.reportf(name, "has bytes that the encoding of the file does not have: check --encoding")
	case grid.Text, grid.Number, grid.Boolean:
		return true
	}
	return false
}

// text returns the text of a cell, with line feeds at line ends.
func (v *values) text(name string) string {
	cell := v.cell(name)
	if !v.readable(name, cell) {
		return ""
	}
	switch cell.Kind {
	case grid.Boolean:
		v.reportf(name, "is a truth value: format the cell as text and type the text again")
		return ""
	case grid.Number:
		if cell.Formatted || !plainNumber.MatchString(cell.Text) || digits(cell.Text) > maxDigits {
			v.reportf(name, "is the number %.40s, and the spreadsheet program may have changed the text: format the cell as text and type it again", cell.Text)
			return ""
		}
	default:
		if v.table.sheet == "" {
			v.checkCSV(name, cell)
		}
	}
	return strings.ReplaceAll(cell.Text, "\r\n", "\n")
}

// checkCSV reports texts that spreadsheet programs write to CSV in place of others.
func (v *values) checkCSV(name string, cell grid.Cell) {
	at := v.table.position(cell.Line, cell.Column)
	switch {
	case failures.MatchString(cell.Text):
		v.reader.reportf(at, name, "is the error %s", cell.Text)
	case shortened.MatchString(cell.Text):
		v.reader.warnf(at, name, "%s looks like a longer number that a spreadsheet program has shortened", cell.Text)
	case strings.HasPrefix(cell.Text, "="):
		v.reader.warnf(at, name, "looks like a formula; it is read as text")
	}
}

func digits(number string) (count int) {
	for _, r := range strings.TrimLeft(number, "-0.") {
		if r != '.' {
			count++
		}
	}
	return count
}

// word returns a text without white space around it.
func (v *values) word(name string) string { return strings.TrimSpace(v.text(name)) }

// number returns a number, or nil.
func (v *values) number(name string) *float64 {
	cell := v.cell(name)
	if !v.readable(name, cell) {
		return nil
	}
	text := strings.TrimSpace(cell.Text)
	if cell.Kind == grid.Number {
		number, err := strconv.ParseFloat(text, 64)
		if err == nil {
			return &number
		}
	}
	if cell.Kind != grid.Text || !plainNumber.MatchString(text) {
		v.reportf(name, "must be a number in digits, with a point before decimals and without zeros in front, such as -0.25; it is %.40q", text)
		return nil
	}
	number, err := strconv.ParseFloat(text, 64)
	if err != nil {
		v.reportf(name, "is too large: %.40s", text)
		return nil
	}
	if !strings.Contains(text, ".") && strconv.FormatFloat(number, 'f', -1, 64) != text {
		v.reportf(name, "has more digits than a number can hold: %.40s", text)
		return nil
	}
	return &number
}

// whole returns a whole number, or 0.
func (v *values) whole(name string) int32 {
	number := v.number(name)
	if number == nil {
		return 0
	}
	if *number != math.Trunc(*number) || math.Abs(*number) > math.MaxInt32 {
		v.reportf(name, "must be a whole number of at most %d, is %g", math.MaxInt32, *number)
		return 0
	}
	if *number == 0 { // the resource has no 0 where a number can be missing
		v.reportf(name, "must be at least 1; leave the cell empty if there is no number")
	}
	return int32(*number)
}

// boolean returns a truth value; false for an empty cell.
func (v *values) boolean(name string) bool {
	cell := v.cell(name)
	if !v.readable(name, cell) {
		return false
	}
	text := strings.ToLower(strings.TrimSpace(cell.Text))
	if cell.Kind == grid.Number || text != "true" && text != "false" {
		v.reportf(name, "must be true or false, is %.40q", cell.Text)
	}
	return text == "true"
}

// texts returns the entries of a list.
func (v *values) texts(name string) []string {
	text := v.text(name)
	if strings.TrimSpace(text) == "" {
		return nil
	}
	entries := strings.Split(text, separator)
	for i := range entries {
		entries[i] = strings.TrimSpace(entries[i])
	}
	return entries
}

// object returns a JSON object, or nil.
func (v *values) object(name string) *apiextensionsv1.JSON {
	text := v.word(name)
	if text == "" {
		return nil
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &object); err != nil {
		v.reportf(name, "must be a JSON object such as {\"pass_mark\": 50}: %v", err)
		return nil
	}
	return &apiextensionsv1.JSON{Raw: []byte(text)}
}
