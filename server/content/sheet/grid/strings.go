package grid

import (
	"encoding/xml"
	"regexp"
	"strconv"
	"strings"
)

const (
	// maxStrings bounds the list of shared strings, which can be empty.
	maxStrings = 4_000_000
	// maxCellBytes is more than the longest text of an exam needs.
	maxCellBytes = 512 << 10
)

// readStrings reads the texts that cells share.
func (w *Workbook) readStrings(part string) error {
	return w.read(part, func(x *xmlReader) error {
		for {
			token, err := x.next()
			if token == nil || err != nil {
				return err
			}
			if start, ok := token.(xml.StartElement); ok && start.Name.Local == "si" {
				text, err := x.text(w.budget)
				if err != nil {
					return err
				}
				if w.strings = append(w.strings, text); len(w.strings) > maxStrings {
					return errorf("has more than %d different texts", maxStrings)
				}
			}
		}
	})
}

// text returns the text of an element that has started: that of <t> below it, without the phonetic one. It reads the element's end.
func (x *xmlReader) text(left *budget) (string, error) {
	var b []byte
	end := x.depth
	inText, phonetic := false, 0
	for {
		token, err := x.next()
		if err != nil {
			return "", err
		}
		switch token := token.(type) {
		case xml.StartElement:
			inText = token.Name.Local == "t"
			if token.Name.Local == "rPh" {
				phonetic++
			}
		case xml.EndElement:
			inText = false
			if token.Name.Local == "rPh" {
				phonetic--
			}
			if x.depth < end {
				return unescape(string(b)), nil
			}
		case xml.CharData:
			if inText && phonetic == 0 {
				if b, err = appendText(b, token, left); err != nil {
					return "", err
				}
			}
		case nil:
			return unescape(string(b)), nil
		}
	}
}

func appendText(b, text []byte, left *budget) ([]byte, error) {
	if left.text -= int64(len(text)); left.text < 0 {
		return nil, errorf("has more than %d MiB of texts", maxTextBytes>>20)
	}
	if len(b)+len(text) > maxCellBytes {
		return nil, errorf("has a cell of more than %d KiB", maxCellBytes>>10)
	}
	return append(b, text...), nil
}

// escaped is a character that XML cannot hold, as XLSX writes it.
var escaped = regexp.MustCompile(`_x[0-9A-Fa-f]{4}_`)

func unescape(text string) string {
	if !strings.Contains(text, "_x") {
		return text
	}
	return escaped.ReplaceAllStringFunc(text, func(found string) string {
		code, err := strconv.ParseUint(found[2:6], 16, 16)
		if err != nil {
			return found
		}
		return string(rune(code))
	})
}
