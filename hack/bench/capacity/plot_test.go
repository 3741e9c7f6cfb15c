package capacity

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"strings"
	"testing"

	"examprep.dev/server/testkit/check"
)

// element is a line or a text of a plot.
type element struct {
	Class string  `xml:"class,attr"`
	X1    float64 `xml:"x1,attr"`
	Y1    float64 `xml:"y1,attr"`
	X2    float64 `xml:"x2,attr"`
	Y2    float64 `xml:"y2,attr"`
	Y     float64 `xml:"y,attr"`
	Text  string  `xml:",chardata"`
}

func plot(t *testing.T, uses []Use) (lines, labels []element) {
	t.Helper()
	var out strings.Builder
	check.NoError(t, Plot(&out, uses))
	decoder := xml.NewDecoder(strings.NewReader(out.String()))
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return lines, labels
		}
		check.NoError(t, err)
		start, ok := token.(xml.StartElement)
		if !ok || start.Name.Local != "line" && start.Name.Local != "text" {
			continue
		}
		var found element
		check.NoError(t, decoder.DecodeElement(&found, &start))
		switch {
		case start.Name.Local == "line" && found.Class == "line":
			lines = append(lines, found)
		case start.Name.Local == "text" && found.Class == "":
			labels = append(labels, found)
		}
	}
}

func TestPlotDrawsProcessorsOverOperations(t *testing.T) {
	t.Parallel()
	lines, _ := plot(t, []Use{{"GET", "API", 10}})
	check.Equal(t, len(lines), 1, "lines")
	// 10 µs: a hundredth of a processor for 1,000 operations a second, a hundred for 10,000,000.
	want := []float64{left + (right-left)/5, bottom, right, bottom - (bottom-top)*4/5}
	for i, got := range []float64{lines[0].X1, lines[0].Y1, lines[0].X2, lines[0].Y2} {
		if math.Abs(got-want[i]) > 0.1 {
			t.Errorf("coordinate %d of the line is %v, want %v", i, got, want[i])
		}
	}
}

func TestPlotKeepsLinesInsideAndLabelsApart(t *testing.T) {
	t.Parallel()
	lines, labels := plot(t, []Use{{"a", "b", 1}, {"c & <d>", "e", 1.01}, {"f", "g", 5000}, {"h", "i", 5001}})
	for _, line := range lines {
		if line.X1 < left || line.X2 > right+0.1 || line.Y1 > bottom+0.1 || line.Y2 < top-0.1 {
			t.Errorf("line %+v leaves the plot", line)
		}
	}
	for i, label := range labels[1:] {
		if label.Y-labels[i].Y < labelDistance-0.1 {
			t.Errorf("labels %q and %q overlap", labels[i].Text, label.Text)
		}
	}
	check.Equal(t, labels[2].Text, "c & <d>: e, 1.01 µs", "label")
}
