package marking

import (
	"bytes"
	"math"
	"strconv"
)

// marks are exam marks in millionths: marking schemes have at most six decimals (a third of a mark, at the finest), and
// sums of integers do not drift.
type marks int64

const (
	oneMark marks = 1_000_000
	// maxMarks bounds what one question may earn or cost, so that no paper's sum overflows.
	maxMarks = 1_000_000 * oneMark
)

// marksOf rounds a marking scheme's number to millionths. Beyond a million marks a question it saturates; NaN is 0.
func marksOf(x float64) marks {
	if math.IsNaN(x) {
		return 0
	}
	limit := float64(maxMarks)
	return marks(math.Round(min(max(x*float64(oneMark), -limit), limit)))
}

// append appends the exact decimal, which is a JSON number.
func (m marks) append(dst []byte) []byte {
	magnitude := uint64(m)
	if m < 0 {
		dst, magnitude = append(dst, '-'), -magnitude
	}
	dst = strconv.AppendUint(dst, magnitude/uint64(oneMark), 10)
	fraction := magnitude % uint64(oneMark)
	if fraction == 0 {
		return dst
	}
	point := len(dst)
	dst = strconv.AppendUint(dst, uint64(oneMark)+fraction, 10) // a 1, for the point, and six decimals
	dst[point] = '.'
	return bytes.TrimRight(dst, "0")
}

// share returns m × part ÷ whole, rounded half away from zero, for 0 ≤ part ≤ whole, 0 < whole ≤ 1,000 and m up to a
// question's largest marks.
func (m marks) share(part, whole int) marks {
	half := marks(whole)
	if m < 0 {
		half = -half
	}
	return (2*m*marks(part) + half) / marks(2*whole)
}

// Percentage is a percentage in hundredths: 0 to 10000.
type Percentage int32

// percentageOf returns raw as a share of maximum: two decimals, rounded half up, never below 0 nor above 100. Where
// nothing can be earned it is 0. It is exact up to 400 million marks; a paper has at most 10,000 questions of 1,000 marks.
func percentageOf(raw, maximum marks) Percentage {
	const hundred = 10000
	switch {
	case raw <= 0 || maximum <= 0:
		return 0
	case raw >= maximum:
		return hundred
	}
	return Percentage((2*hundred*raw + maximum) / (2 * maximum))
}

// String prints the exact decimal, as short as it is.
func (p Percentage) String() string { return string(p.append(nil)) }

// append appends the exact decimal, which is a JSON number.
func (p Percentage) append(dst []byte) []byte { return (marks(p) * (oneMark / 100)).append(dst) }

// MarshalJSON writes a JSON number.
func (p Percentage) MarshalJSON() ([]byte, error) { return p.append(nil), nil }

// Float64 returns the nearest float, which prints as the same two decimals.
func (p Percentage) Float64() float64 { return float64(p) / 100 }
