// Package listing prints long lists: it keeps none of their elements.
package listing

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// indent begins a line once for each level of JSON. gap is the distance between two columns of a table.
const (
	indent = "  "
	gap    = 2
)

// JSON writes {"name": […]} with the elements. It ends with their first error, and writes nothing if that is in place of the first
// element.
func JSON[V any](w io.Writer, name string, elements iter.Seq2[V, error]) error {
	buffered := bufio.NewWriter(w)
	_, _ = fmt.Fprintf(buffered, "{\n%s%q: [", indent, name)
	var element bytes.Buffer
	encoder := json.NewEncoder(&element)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent(indent+indent, indent)
	const first = "\n"
	between, end := first, "]\n}\n"
	for v, err := range elements {
		if err == nil {
			element.Reset()
			err = encoder.Encode(v)
		}
		if err != nil && between == first {
			return err
		}
		if err != nil {
			return errors.Join(err, buffered.Flush())
		}
		_, _ = fmt.Fprintf(buffered, "%s%s%s", between, indent+indent, bytes.TrimSpace(element.Bytes()))
		between, end = ",\n", "\n"+indent+"]\n}\n"
	}
	_, _ = buffered.WriteString(end)
	return buffered.Flush()
}

// quoted returns a cell as it is printed: in Go's quotes if it has a character that is not printable. Such a character can turn a
// terminal's text around, or change its screen.
func quoted(cell string) string {
	if utf8.ValidString(cell) && !strings.ContainsFunc(cell, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return cell
	}
	return strconv.Quote(cell)
}

// Table writes a heading and rows as columns. It walks the rows twice, first for the widths of the columns. It ends with their first
// error. A cell with a character that is not printable is quoted.
func Table(w io.Writer, heading []string, rows iter.Seq2[[]string, error]) error {
	widths := make([]int, len(heading))
	measure := func(cells []string) {
		for i, cell := range cells[:len(cells)-1] { // nothing follows the last one
			widths[i] = max(widths[i], utf8.RuneCountInString(quoted(cell))+gap)
		}
	}
	measure(heading)
	for cells, err := range rows {
		if err != nil {
			return err
		}
		measure(cells)
	}
	buffered := bufio.NewWriter(w)
	write := func(cells []string) {
		for i, cell := range cells {
			cell = quoted(cell)
			_, _ = buffered.WriteString(cell)
			_, _ = buffered.WriteString(strings.Repeat(" ", max(widths[i]-utf8.RuneCountInString(cell), 0)))
		}
		_ = buffered.WriteByte('\n') // Flush returns the error
	}
	write(heading)
	for cells, err := range rows {
		if err != nil {
			return errors.Join(err, buffered.Flush())
		}
		write(cells)
	}
	return buffered.Flush()
}
