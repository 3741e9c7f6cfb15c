package listing_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"
	"text/tabwriter"

	"examprep.dev/server/command/listing"
	"examprep.dev/server/testkit/check"
)

// sequence yields values, and then an error if there is one.
func sequence[V any](values []V, last error) iter.Seq2[V, error] {
	return func(yield func(V, error) bool) {
		for _, v := range values {
			if !yield(v, nil) {
				return
			}
		}
		if last != nil {
			var none V
			yield(none, last)
		}
	}
}

func TestJSONIsThatOfAWholeList(t *testing.T) {
	t.Parallel()
	type element struct {
		Name string `json:"name"`
		Of   []int  `json:"of,omitempty"`
	}
	for n := range 4 {
		list := []element{{"a<b>&", nil}, {"é\n", []int{1, 2}}, {"", []int{}}}[:min(n, 3)]
		var got, want bytes.Buffer
		check.NoError(t, listing.JSON(&got, "keys", sequence(list, nil)))
		encoder := json.NewEncoder(&want)
		encoder.SetEscapeHTML(false)
		encoder.SetIndent("", "  ")
		check.NoError(t, encoder.Encode(map[string]any{"keys": list}))
		check.Equal(t, got.String(), want.String(), "a list of %d", len(list))
	}
}

func TestTableIsThatOfTabwriter(t *testing.T) {
	t.Parallel()
	heading := []string{"NAME", "TIER", "STATE"}
	for _, rows := range [][][]string{nil, {{"", "", ""}}, {{"é a long name", "x", "active"}, {"b", "a tier", ""}}} {
		var got, want bytes.Buffer
		check.NoError(t, listing.Table(&got, heading, sequence(rows, nil)))
		table := tabwriter.NewWriter(&want, 0, 0, 2, ' ', 0)
		for _, cells := range append([][]string{heading}, rows...) {
			_, _ = fmt.Fprintln(table, strings.Join(cells, "\t"))
		}
		check.NoError(t, table.Flush())
		check.Equal(t, got.String(), want.String(), "a table of %d rows", len(rows))
	}
}

func TestAListEndsWithItsError(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	var w bytes.Buffer
	if err := listing.JSON(&w, "keys", sequence([]int{1}, broken)); !errors.Is(err, broken) {
		t.Errorf("JSON: %v", err)
	}
	if err := listing.Table(&w, []string{"A"}, sequence([][]string{{"x"}}, broken)); !errors.Is(err, broken) {
		t.Errorf("table: %v", err)
	}
	var nothing bytes.Buffer
	if err := listing.JSON(&nothing, "keys", sequence[int](nil, broken)); !errors.Is(err, broken) || nothing.Len() > 0 {
		t.Errorf("JSON without an element: %v, %q", err, nothing.String())
	}
}

// TestACellThatIsNotPrintableIsQuoted: a developer's name of a key does not change an administrator's terminal.
func TestACellThatIsNotPrintableIsQuoted(t *testing.T) {
	t.Parallel()
	rows := [][]string{
		{"plain \u00e9 \U0001f511 \"quoted\"", "a"}, {"turned \u202e around", "b"}, {"\u200b", "c\u2066"}, {"escape \x1b[2J", "d"}, {"no \xff UTF-8", "e"},
	}
	var got bytes.Buffer
	check.NoError(t, listing.Table(&got, []string{"NAME", "KEY"}, sequence(rows, nil)))
	want := strings.Join([]string{
		`NAME                    KEY`,
		"plain \u00e9 \U0001f511 \"quoted\"      a",
		`"turned \u202e around"  b`,
		`"\u200b"                "c\u2066"`,
		`"escape \x1b[2J"        d`,
		`"no \xff UTF-8"         e`,
	}, "\n") + "\n"
	check.Equal(t, got.String(), want, "table")
}
