package sheet

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"examprep.dev/server/content/fields"
	"examprep.dev/server/content/importer"
	"examprep.dev/server/content/sheet/grid"
	"examprep.dev/server/content/syntax"
)

// InputError is returned for a folder or file in From that the format does not read.
type InputError struct{ Detail string }

func (e *InputError) Error() string { return e.Detail }

// fileError is an error of a file before it has a table.
type fileError struct {
	file string
	err  error
}

func (e *fileError) Error() string { return e.file + ": " + e.err.Error() }
func (e *fileError) Unwrap() error { return e.err }

// ImportCSV imports a folder of CSV files: exams.csv and so on. encoding names their encoding; empty: UTF-8, or UTF-16 with a byte order mark.
func ImportCSV(ctx context.Context, options importer.Options, encoding string) (importer.Report, error) {
	if info, err := os.Stat(options.From); err == nil && !info.IsDir() {
		return importer.Report{}, &InputError{fmt.Sprintf("%s is a file: CSV is read from a folder with exams.csv, papers.csv and questions.csv", options.From)}
	}
	return importer.Import(ctx, options, func(ctx context.Context) (*importer.Input, error) {
		if _, err := os.Stat(options.From); err != nil {
			return nil, fmt.Errorf("import: %w", err)
		}
		return read(ctx, &csvSource{folder: options.From, encoding: encoding})
	})
}

// ImportXLSX imports a workbook.
func ImportXLSX(ctx context.Context, options importer.Options) (importer.Report, error) {
	if info, err := os.Stat(options.From); err == nil && info.IsDir() {
		return importer.Report{}, &InputError{fmt.Sprintf("%s is a folder: name the workbook, such as %s", options.From, filepath.Join(options.From, "exams.xlsx"))}
	}
	return importer.Import(ctx, options, func(ctx context.Context) (*importer.Input, error) {
		return readWorkbook(ctx, options.From)
	})
}

// csvSource is a folder of CSV files.
type csvSource struct {
	folder, encoding string
	opened           []*grid.CSV
}

func (s *csvSource) name() string { return s.folder }

func (s *csvSource) open(record fields.Record) (*table, error) {
	name := filepath.Join(s.folder, record.Sheet+".csv")
	known := record.Columns()
	file, err := grid.OpenCSV(name, s.encoding, func(column string) bool { return slices.Contains(known, column) })
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, &fileError{name, err}
	}
	s.opened = append(s.opened, file)
	rows := func(yield func(grid.Row, error) bool) {
		if yield(file.Header, nil) {
			file.Rows()(yield)
		}
	}
	return &table{record: record, file: name, size: file.Size, rows: rows}, nil
}

func (s *csvSource) close() error {
	var failed error
	for _, file := range s.opened {
		failed = errors.Join(failed, file.Close())
	}
	return failed
}

// workbookSource is a workbook.
type workbookSource struct {
	file string
	book *grid.Workbook
}

// readWorkbook reads all sheets of a workbook.
func readWorkbook(ctx context.Context, file string) (*importer.Input, error) {
	book, err := grid.OpenWorkbook(file)
	if failed, ok := errors.AsType[*grid.Error](err); ok {
		r := &reader{}
		r.reportf(syntax.Position{File: file}, "", "%s", failed.Detail)
		return r.input(), nil
	}
	if err != nil {
		return nil, err
	}
	in, err := read(ctx, &workbookSource{file: file, book: book})
	if err != nil {
		return nil, err
	}
	r := &reader{problems: in.Problems, ignored: in.Ignored}
	r.checkSheets(file, book.Sheets)
	in.Problems = r.problems
	return in, nil
}

// checkSheets reports sheets with nearly the name of a known one, and counts other sheets as ignored.
func (r *reader) checkSheets(file string, sheets []string) {
	var known []string
	for _, record := range fields.Records() {
		known = append(known, record.Sheet)
	}
	for _, name := range sheets {
		switch meant := suggestion(name, known); {
		case slices.Contains(known, name) || name == explanations:
		case meant != "":
			r.reportf(syntax.Position{File: file}, "", "the sheet %q is not known%s", name, meant)
		default:
			r.ignored[file+": sheet "+strings.TrimSpace(name)]++
		}
	}
}

func (s *workbookSource) name() string { return s.file }

func (s *workbookSource) open(record fields.Record) (*table, error) {
	if !slices.Contains(s.book.Sheets, record.Sheet) {
		return nil, nil
	}
	return &table{record: record, file: s.file, sheet: record.Sheet, size: s.book.Size(record.Sheet), rows: s.book.Rows(record.Sheet)}, nil
}

func (s *workbookSource) close() error { return s.book.Close() }
