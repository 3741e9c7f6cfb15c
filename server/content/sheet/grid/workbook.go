package grid

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"
)

// Limits of a workbook.
const (
	maxWorkbookBytes = 64 << 20
	// maxDirectoryBytes bounds what is read to find the parts of the workbook.
	maxDirectoryBytes = 4 << 20
	// maxXMLBytes bounds all XML of the workbook together, unpacked.
	maxXMLBytes = 512 << 20
	// maxTextBytes bounds the texts of all cells together.
	maxTextBytes = 256 << 20
	maxSheets    = 1000
	// maxRelations bounds the references of a part, of which a byte of XML in the file makes many.
	maxRelations = 10_000
)

// Workbook is an open XLSX file.
type Workbook struct {
	// Sheets are the names of the worksheets, in order.
	Sheets []string

	file    *os.File
	parts   map[string]*zip.File
	targets map[string]string // the part of each sheet
	strings []string
	styles  []format // by the style's number in a cell
	budget  *budget
}

// budget is how much of a workbook can still be read.
type budget struct{ xml, text int64 }

// OpenWorkbook opens a file and reads all of it but the cells.
func OpenWorkbook(name string) (*Workbook, error) {
	file, err := os.Open(name) //nolint:gosec // the file that the user named
	if err != nil {
		return nil, fmt.Errorf("open workbook: %w", err)
	}
	info, err := file.Stat()
	switch {
	case err != nil:
		err = fmt.Errorf("open workbook: %w", err)
	case !info.Mode().IsRegular():
		err = errorf("is not a file")
	case info.Size() > maxWorkbookBytes:
		err = errorf("is larger than %d MiB: split it", maxWorkbookBytes>>20)
	default:
		var w *Workbook
		if w, err = readWorkbook(file, info.Size()); err == nil {
			w.file = file
			return w, nil
		}
	}
	_ = file.Close()
	return nil, err
}

// Close closes the file and releases its texts.
func (w *Workbook) Close() error {
	w.strings = nil
	return w.file.Close()
}

// Size returns the number of bytes of a sheet that the file declares. It can be wrong.
func (w *Workbook) Size(sheet string) int64 {
	if part := w.parts[w.targets[sheet]]; part != nil {
		return int64(part.UncompressedSize64)
	}
	return 0
}

// directory fails when more than maxDirectoryBytes are read before the parts are known.
type directory struct {
	source io.ReaderAt
	left   int64
	opened bool
}

var errDirectory = errors.New("too many parts")

// ReadAt reads from the workbook.
func (d *directory) ReadAt(p []byte, at int64) (int, error) {
	if !d.opened {
		if d.left -= int64(len(p)); d.left < 0 {
			return 0, errDirectory
		}
	}
	return d.source.ReadAt(p, at)
}

func readWorkbook(source io.ReaderAt, size int64) (*Workbook, error) {
	head := make([]byte, 4)
	if _, err := source.ReadAt(head, 0); err == nil && bytes.Equal(head, []byte("\xd0\xcf\x11\xe0")) {
		return nil, errorf("has a password or the old format .xls: save it as .xlsx without a password")
	}
	index := &directory{source: source, left: maxDirectoryBytes}
	archive, err := zip.NewReader(index, size)
	if err != nil {
		return nil, errorf("is not an XLSX workbook: %v", err)
	}
	index.opened = true
	w := &Workbook{parts: make(map[string]*zip.File), targets: make(map[string]string), budget: &budget{maxXMLBytes, maxTextBytes}}
	for _, part := range archive.File {
		name := strings.TrimPrefix(part.Name, "/")
		if w.parts[name] != nil {
			return nil, errorf("has the part %.100q twice", name)
		}
		w.parts[name] = part
	}
	if err := w.readParts(); err != nil {
		return nil, err
	}
	return w, nil
}

// relation is a reference from one part to another.
type relation struct{ kind, target string }

const (
	relationBook    = "/officeDocument"
	relationSheet   = "/worksheet"
	relationStrings = "/sharedStrings"
	relationStyles  = "/styles"
)

func (w *Workbook) readParts() error {
	roots, err := w.relations("")
	if err != nil {
		return err
	}
	book := ""
	for _, root := range roots {
		if strings.HasSuffix(root.kind, relationBook) {
			book = root.target
		}
	}
	relations, err := w.relations(book)
	if err != nil {
		return err
	}
	for _, found := range relations {
		switch {
		case strings.HasSuffix(found.kind, relationStrings):
			err = w.readStrings(found.target)
		case strings.HasSuffix(found.kind, relationStyles):
			err = w.readStyles(found.target)
		}
		if err != nil {
			return err
		}
	}
	return w.readSheets(book, relations)
}

// relations returns the references of a part by their identifiers.
func (w *Workbook) relations(part string) (map[string]relation, error) {
	folder, name := path.Split(part)
	found := make(map[string]relation)
	err := w.read(path.Join(folder, "_rels", name+".rels"), func(x *xmlReader) error {
		return x.each(func(e element) error {
			if e.name == "Relationship" && e.attribute("TargetMode") != "External" {
				if len(found) == maxRelations {
					return errorf("has a part %.100q with more than %d references", part, maxRelations)
				}
				target := e.attribute("Target")
				if !strings.HasPrefix(target, "/") {
					target = path.Join(folder, target)
				}
				found[e.attribute("Id")] = relation{e.attribute("Type"), strings.TrimPrefix(path.Clean(target), "/")}
			}
			return nil
		})
	})
	return found, err
}

func (w *Workbook) readSheets(book string, relations map[string]relation) error {
	return w.read(book, func(x *xmlReader) error {
		return x.each(func(e element) error {
			if e.name != "sheet" {
				return nil
			}
			name, target := e.attribute("name"), relations[e.attribute("id")]
			switch {
			case !strings.HasSuffix(target.kind, relationSheet): // a chart
			case w.targets[name] != "":
				return errorf("has the sheet %.100q twice", name)
			case len(w.Sheets) == maxSheets:
				return errorf("has more than %d sheets", maxSheets)
			default:
				w.Sheets = append(w.Sheets, name)
				w.targets[name] = target.target
			}
			return nil
		})
	})
}

// read opens a part and passes it to use.
func (w *Workbook) read(part string, use func(*xmlReader) error) error {
	file := w.parts[part]
	if file == nil {
		return errorf("is not an XLSX workbook: it has no part %.100q", part)
	}
	source, err := file.Open()
	if err != nil {
		return errorf("has a part %.100q that cannot be read: %v", part, err)
	}
	defer func() { _ = source.Close() }()
	err = use(newXMLReader(source, w.budget))
	if failed, ok := errors.AsType[*xmlError](err); ok {
		return errorf("has a part %.100q that cannot be read: %v", part, failed.err)
	}
	return err
}
