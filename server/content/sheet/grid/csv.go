package grid

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// Limits of a CSV file.
const (
	maxCSVBytes    = 256 << 20
	maxRecordBytes = 8 << 20
	maxHeaderBytes = 64 << 10
	maxColumns     = 1000
)

// CSV is an open CSV file.
type CSV struct {
	// Header is the first row.
	Header Row
	// Size is the number of bytes of the file.
	Size int64

	file    *os.File
	guard   *guard
	records *csv.Reader
	// decoded reports whether the text was converted from another encoding than UTF-8.
	decoded bool
}

// OpenCSV opens a file and reads its first row. The separator is the comma, semicolon or tab with which known knows all names of that row,
// otherwise the one with which it knows most. encoding is the name of the file's encoding; empty: UTF-8, or UTF-16 with a byte order mark.
func OpenCSV(name, encoding string, known func(string) bool) (*CSV, error) {
	file, err := os.Open(name) //nolint:gosec // the file that the user named
	if err != nil {
		return nil, fmt.Errorf("open CSV: %w", err)
	}
	c := &CSV{file: file}
	if err := c.open(encoding, known); err != nil {
		_ = file.Close()
		return nil, err
	}
	return c, nil
}

// Close closes the file.
func (c *CSV) Close() error { return c.file.Close() }

func (c *CSV) open(encoding string, known func(string) bool) error {
	info, err := c.file.Stat()
	if err != nil {
		return fmt.Errorf("open CSV: %w", err)
	}
	c.Size = info.Size()
	if c.Size > maxCSVBytes {
		return errorf("is larger than %d MiB: split it", maxCSVBytes>>20)
	}
	return c.read(io.LimitReader(c.file, maxCSVBytes), encoding, known) // a file can grow
}

// read begins to read source.
func (c *CSV) read(source io.Reader, encoding string, known func(string) bool) error {
	text, decoded, err := decode(source, encoding)
	if err != nil {
		return err
	}
	c.decoded = decoded
	buffer := bufio.NewReaderSize(text, maxHeaderBytes)
	head, err := buffer.Peek(maxHeaderBytes)
	if err != nil && !errors.Is(err, io.EOF) && len(head) == 0 {
		return c.failure(err)
	}
	comma := separator(head, known)
	c.guard = &guard{source: buffer, comma: byte(comma), line: 1}
	c.records = csv.NewReader(c.guard)
	c.records.Comma = comma
	c.records.FieldsPerRecord = -1
	header, err := c.next()
	if errors.Is(err, io.EOF) {
		return errorf("is empty: its first row must have the names of the columns")
	}
	c.Header = header
	return err
}

// separator returns the separator with which known knows all names of the first record, or most of them.
func separator(head []byte, known func(string) bool) (best rune) {
	best, most := ',', 0
	for _, comma := range ",;\t" {
		reader := csv.NewReader(bytes.NewReader(head))
		reader.Comma = comma
		names, err := reader.Read()
		if err != nil {
			continue
		}
		count := 0
		for _, name := range names {
			if known(strings.TrimSpace(name)) {
				count++
			}
		}
		if count > most {
			best, most = comma, count
		}
	}
	return best
}

// Rows returns the rows after the first one.
func (c *CSV) Rows() Rows {
	return func(yield func(Row, error) bool) {
		for {
			row, err := c.next()
			if errors.Is(err, io.EOF) || !yield(row, err) || err != nil {
				return
			}
		}
	}
}

func (c *CSV) next() (Row, error) {
	record, err := c.records.Read()
	if err != nil {
		return Row{}, c.failure(err)
	}
	row := Row{Cells: make([]Cell, len(record))}
	for i, text := range record {
		cell := &row.Cells[i]
		cell.Text = text
		cell.Line, cell.Column = c.records.FieldPos(i)
		switch {
		case text == "":
		case c.decoded && strings.ContainsRune(text, '\uFFFD'):
			cell.Kind = Undecodable
		default:
			cell.Kind = Text
		}
	}
	row.Line, row.Offset = row.Cells[0].Line, c.records.InputOffset()
	return row, nil
}

// failure returns the error of a read with its line.
func (c *CSV) failure(err error) error {
	if limit, ok := errors.AsType[*Error](err); ok {
		return limit
	}
	malformed, ok := errors.AsType[*csv.ParseError](err)
	switch {
	case ok && errors.Is(err, csv.ErrQuote):
		return &Error{Line: malformed.StartLine, Detail: `has a " that is not doubled, or a quoted cell without an end`}
	case ok && errors.Is(err, csv.ErrBareQuote):
		return &Error{Line: malformed.Line, Column: malformed.Column, Detail: `has a " inside a cell: put the cell into quotes, and double each " in it`}
	case isInvalidUTF8(err):
		line := 1
		if c.guard != nil {
			line = c.guard.line
		}
		return &Error{Line: line, Detail: "is not valid UTF-8: save the file as UTF-8, or name its encoding with --encoding, for example windows-1252"}
	default:
		return err
	}
}

// guard passes a CSV text on as long as its records are within the limits.
type guard struct {
	source io.Reader
	comma  byte

	line           int
	bytes, columns int
	quoted         bool
}

func (g *guard) Read(p []byte) (int, error) {
	n, err := g.source.Read(p)
	for _, b := range p[:n] {
		g.bytes++
		switch {
		case b == 0:
			return 0, &Error{Line: g.line, Detail: "has a NUL character: save the file as UTF-8; UTF-16 needs a byte order mark"}
		case b == '"':
			g.quoted = !g.quoted
		case b == '\n':
			g.line++
			if !g.quoted {
				g.bytes, g.columns = 0, 0
			}
		case b == g.comma && !g.quoted:
			g.columns++
		}
		if g.bytes > maxRecordBytes {
			return 0, &Error{Line: g.line, Detail: fmt.Sprintf("has a row of more than %d MiB: does a quoted cell have no end?", maxRecordBytes>>20)}
		}
		if g.columns >= maxColumns {
			return 0, &Error{Line: g.line, Detail: fmt.Sprintf("has a row of more than %d cells", maxColumns)}
		}
	}
	return n, err
}
