package grid

import (
	"fmt"
	"iter"
	"strconv"
)

// Kind is the type of a cell's content.
type Kind uint8

// The kinds. Cells of CSV are Empty, Text or Undecodable.
const (
	Empty Kind = iota
	Text
	Number
	Boolean
	Date
	Formula
	Failure
	// Undecodable is a text with bytes that do not exist in the file's encoding.
	Undecodable
)

// Cell is the content of one cell.
type Cell struct {
	Kind Kind
	// Text is the text, the number as it is stored, TRUE or FALSE, or the code of the error.
	Text string
	// Formatted reports whether a program shows a Number in another form than it is stored, by the cell's number format.
	Formatted bool
	// Line and Column are the position of the cell in a sheet, or of its first character in a CSV file. They count from 1.
	Line, Column int
}

// Row is one row of a table.
type Row struct {
	// Line is the number of the row in a sheet, or of its first line in a CSV file.
	Line int
	// Offset is how much of the table has been read, in the unit of its size.
	Offset int64
	// Cells begin with the first column. A cell without content can be missing at the end, and to the right of the last text of the first row.
	Cells []Cell
}

// Rows are the rows of a table. A Row is valid until the next one. An error is the last element: an [*Error], or that of the file system.
type Rows = iter.Seq2[Row, error]

// Error is the reason that a file cannot be read any further.
type Error struct {
	// Sheet is the sheet of a workbook; empty for a CSV file and for a workbook as a whole.
	Sheet string
	// Line and Column are 0 if they are not known.
	Line, Column int
	Detail       string
}

func (e *Error) Error() string {
	place := e.Sheet
	if e.Line > 0 {
		place += ":" + strconv.Itoa(e.Line)
	}
	if place == "" {
		return e.Detail
	}
	return place + ": " + e.Detail
}

func errorf(format string, args ...any) *Error { return &Error{Detail: fmt.Sprintf(format, args...)} }
