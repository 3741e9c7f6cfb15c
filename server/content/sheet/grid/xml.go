package grid

import (
	"bufio"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
)

// Limits of the XML of a workbook.
const (
	maxTokenBytes = 1 << 20
	maxDepth      = 64
)

// xmlReader reads the tokens of a part within the limits.
type xmlReader struct {
	decoder *xml.Decoder
	source  *limited
	depth   int
}

// xmlError is a failure of XML or of its compression.
type xmlError struct{ err error }

func (e *xmlError) Error() string { return e.err.Error() }

func (e *xmlError) Unwrap() error { return e.err }

// limited counts the bytes of a token and of the workbook. Its ReadByte keeps the decoder from reading ahead.
type limited struct {
	source *bufio.Reader
	budget *budget
	token  int
}

// Read makes a limited an io.Reader; the decoder reads bytes instead.
func (l *limited) Read([]byte) (int, error) { return 0, errors.ErrUnsupported }

// ReadByte reads a byte of the token.
func (l *limited) ReadByte() (byte, error) {
	if l.token++; l.token > maxTokenBytes {
		return 0, fmt.Errorf("an element or a text has more than %d bytes", maxTokenBytes)
	}
	if l.budget.xml--; l.budget.xml < 0 {
		return 0, fmt.Errorf("the workbook has more than %d MiB when it is unpacked", maxXMLBytes>>20)
	}
	return l.source.ReadByte()
}

func newXMLReader(source io.Reader, left *budget) *xmlReader {
	l := &limited{source: bufio.NewReaderSize(source, 64<<10), budget: left}
	return &xmlReader{decoder: xml.NewDecoder(l), source: l}
}

// next returns the next token, or nil at the end. An xml.CharData is valid until the next call.
func (x *xmlReader) next() (xml.Token, error) {
	x.source.token = 0
	token, err := x.decoder.Token()
	if errors.Is(err, io.EOF) {
		return nil, nil
	}
	if err != nil {
		return nil, &xmlError{err}
	}
	switch token.(type) {
	case xml.Directive: // it can define entities
		return nil, &xmlError{errors.New("it has a document type declaration")}
	case xml.StartElement:
		if x.depth++; x.depth > maxDepth {
			return nil, &xmlError{fmt.Errorf("elements are nested more than %d deep", maxDepth)}
		}
	case xml.EndElement:
		x.depth--
	default:
	}
	return token, nil
}

// element is the start of an element.
type element struct {
	name       string
	attributes []xml.Attr
}

func elementOf(start xml.StartElement) element { return element{start.Name.Local, start.Attr} }

// attribute returns the value of an attribute, or "".
func (e element) attribute(name string) string {
	for i := range e.attributes {
		if e.attributes[i].Name.Local == name {
			return e.attributes[i].Value
		}
	}
	return ""
}

// each calls use at the start of every element.
func (x *xmlReader) each(use func(element) error) error {
	for {
		token, err := x.next()
		if token == nil || err != nil {
			return err
		}
		if start, ok := token.(xml.StartElement); ok {
			if err := use(elementOf(start)); err != nil {
				return err
			}
		}
	}
}
