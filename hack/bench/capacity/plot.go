// Package capacity draws how many processors a load needs.
package capacity

import (
	"cmp"
	"fmt"
	"html"
	"io"
	"math"
	"slices"
	"strings"
)

// Use is the CPU time that one process spends on each operation of a kind.
type Use struct {
	Operation, Process string
	Micros             float64
}

// processors returns how many processors a rate of operations a second needs.
func (u Use) processors(rate float64) float64 { return rate * u.Micros / 1e6 }

// The plot's axes are logarithmic. Its sizes are in pixels, its ranges in powers of ten.
const (
	width, height                   = 760, 470
	left, right, top, bottom        = 64.0, 524.0, 24.0, 404.0
	leastRate, mostRate             = 2, 7
	leastProcessors, mostProcessors = -2, 3
	labelDistance                   = 17.0
)

func x(rate float64) float64 {
	return left + (math.Log10(rate)-leastRate)/(mostRate-leastRate)*(right-left)
}

func y(processors float64) float64 {
	return bottom - (math.Log10(processors)-leastProcessors)/(mostProcessors-leastProcessors)*(bottom-top)
}

// Plot writes an SVG with a line for each use: processors over operations a second. Micros must be positive.
func Plot(out io.Writer, uses []Use) error {
	var text strings.Builder
	fmt.Fprintf(&text, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img" aria-labelledby="title">`+"\n", width, height)
	text.WriteString(`  <title id="title">Processors that each part needs, over operations a second, from measured CPU time</title>
  <style>
    .page { fill: #ffffff } .grid { stroke: #d8dee4 } .limit { stroke: #57606a; stroke-dasharray: 4 3 }
    .line { stroke: #2f6fb0; stroke-width: 1.5 } text { font: 13px sans-serif; fill: #1f2328 } .small { font-size: 12px; fill: #57606a }
    .middle { text-anchor: middle } .end { text-anchor: end }
    @media (prefers-color-scheme: dark) {
      .page { fill: #0d1117 } .grid { stroke: #30363d } .limit { stroke: #9aa4b0 } .line { stroke: #6aa5e0 }
      text { fill: #e6edf3 } .small { fill: #9aa4b0 }
    }
  </style>
`)
	fmt.Fprintf(&text, `  <rect class="page" width="%d" height="%d"/>`+"\n", width, height)
	drawAxes(&text)
	drawLines(&text, uses)
	text.WriteString("</svg>\n")
	_, err := io.WriteString(out, text.String())
	return err
}

func drawAxes(text *strings.Builder) {
	for power := leastRate; power <= mostRate; power++ {
		at := x(math.Pow10(power))
		drawLine(text, "grid", at, top, at, bottom)
		drawText(text, "small middle", at, bottom+18, powerOfTen(power))
	}
	for power := leastProcessors; power <= mostProcessors; power++ {
		at := y(math.Pow10(power))
		drawLine(text, "grid", left, at, right, at)
		drawText(text, "small end", left-8, at+4, powerOfTen(power))
	}
	drawText(text, "small middle", (left+right)/2, bottom+40, "operations a second")
	drawText(text, "small", left, top-8, "processors")
	for _, limit := range []struct {
		processors float64
		name       string
	}{{1, "1: a pod, a Redis shard"}, {64, "64: a large PostgreSQL server"}} {
		drawLine(text, "limit", left, y(limit.processors), right, y(limit.processors))
		drawText(text, "small", left+6, y(limit.processors)-5, limit.name)
	}
}

// drawLines draws the uses, the dearest first, with labels that do not overlap.
func drawLines(text *strings.Builder, uses []Use) {
	sorted := slices.SortedFunc(slices.Values(uses), func(a, b Use) int { return cmp.Compare(b.Micros, a.Micros) })
	above := top - labelDistance
	for _, use := range sorted {
		begin := max(math.Pow10(leastRate), math.Pow10(leastProcessors)/use.Micros*1e6)
		end := min(math.Pow10(mostRate), math.Pow10(mostProcessors)/use.Micros*1e6)
		drawLine(text, "line", x(begin), y(use.processors(begin)), x(end), y(use.processors(end)))
		above = max(above+labelDistance, y(use.processors(end))+4)
		drawText(text, "", right+10, above, fmt.Sprintf("%s: %s, %.3g µs", use.Operation, use.Process, use.Micros))
	}
}

func drawLine(text *strings.Builder, class string, x1, y1, x2, y2 float64) {
	fmt.Fprintf(text, `  <line class="%s" x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f"/>`+"\n", class, x1, y1, x2, y2)
}

func drawText(text *strings.Builder, class string, x, y float64, content string) {
	fmt.Fprintf(text, `  <text class="%s" x="%.1f" y="%.1f">%s</text>`+"\n", class, x, y, html.EscapeString(content))
}

// powerOfTen writes a power of ten with a superscript: 10³.
func powerOfTen(power int) string {
	return "10" + strings.NewReplacer("-", "⁻", "0", "⁰", "1", "¹", "2", "²", "3", "³", "4", "⁴", "5", "⁵", "6", "⁶", "7", "⁷").
		Replace(fmt.Sprint(power))
}
