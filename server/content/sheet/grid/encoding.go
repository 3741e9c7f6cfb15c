package grid

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/ianaindex"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"
)

// CheckEncoding returns an error if OpenCSV does not know an encoding. Empty is known.
func CheckEncoding(name string) error {
	_, err := lookup(name)
	return err
}

func lookup(name string) (encoding.Encoding, error) {
	if name == "" {
		return unicode.UTF8, nil
	}
	found, err := ianaindex.IANA.Encoding(name)
	if err != nil || found == nil {
		return nil, fmt.Errorf("the encoding %q is not known: use an IANA name such as windows-1252", name)
	}
	return found, nil
}

// decode converts a text to UTF-8. A byte order mark wins; one that contradicts the named encoding is an error. decoded reports whether
// source is not UTF-8: then U+FFFD replaces bytes that the encoding does not have.
func decode(source io.Reader, name string) (text io.Reader, decoded bool, err error) {
	named, err := lookup(name)
	if err != nil {
		return nil, false, err
	}
	buffer := bufio.NewReader(source)
	isUTF8, isUTF16, err := byteOrderMark(buffer)
	if err != nil {
		return nil, false, err
	}
	canonical, err := ianaindex.IANA.Name(named)
	if err != nil {
		return nil, false, fmt.Errorf("the encoding %q has no name: %w", name, err)
	}
	utf8Named := canonical == "UTF-8"
	utf16Named := canonical == "UTF-16" || canonical == "UTF-16LE" || canonical == "UTF-16BE"
	switch {
	case isUTF16 && (name == "" || utf16Named):
		return transform.NewReader(buffer, unicode.UTF16(unicode.LittleEndian, unicode.ExpectBOM).NewDecoder()), true, nil
	case isUTF16 || isUTF8 && !utf8Named:
		return nil, false, errorf("begins with the byte order mark of another encoding than %s: leave --encoding out", name)
	case utf8Named:
		if isUTF8 {
			_, _ = buffer.Discard(3) // Peek has read them
		}
		return transform.NewReader(buffer, encoding.UTF8Validator), false, nil
	default:
		return transform.NewReader(buffer, named.NewDecoder()), true, nil
	}
}

// byteOrderMark reports whether a text begins with a byte order mark. It reads nothing.
func byteOrderMark(text *bufio.Reader) (isUTF8, isUTF16 bool, err error) {
	head, err := text.Peek(3)
	if err != nil && !errors.Is(err, io.EOF) {
		return false, false, err
	}
	isUTF16 = bytes.HasPrefix(head, []byte("\xff\xfe")) || bytes.HasPrefix(head, []byte("\xfe\xff"))
	return bytes.HasPrefix(head, []byte("\xef\xbb\xbf")), isUTF16, nil
}

func isInvalidUTF8(err error) bool { return errors.Is(err, encoding.ErrInvalidUTF8) }
