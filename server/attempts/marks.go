package attempts

import (
	"math"
	"math/bits"
	"strconv"
	"strings"
)

// Marks are exam marks in millionths: marking schemes have at most six decimals (a third of a mark, at the finest), and
// sums of integers do not drift.
type Marks int64

const (
	oneMark Marks = 1_000_000
	// maxMarks bounds what one question may earn or cost, so that no paper's sum overflows.
	maxMarks = 1_000_000 * oneMark
)

// marksOf rounds a marking scheme's number to millionths. Beyond a million marks a question it saturates; NaN is 0.
func marksOf(x float64) Marks {
	if math.IsNaN(x) {
		return 0
	}
	limit := float64(maxMarks)
	return Marks(math.Round(min(max(x*float64(oneMark), -limit), limit)))
}

// String prints the exact decimal, as short as it is.
func (m Marks) String() string {
	sign, magnitude := "", uint64(m)
	if m < 0 {
		sign, magnitude = "-", -uint64(m)
	}
	whole, fraction := magnitude/uint64(oneMark), magnitude%uint64(oneMark)
	text := sign + strconv.FormatUint(whole, 10)
	if fraction == 0 {
		return text
	}
	digits := strconv.FormatUint(uint64(oneMark)+fraction, 10)[1:]
	return text + "." + strings.TrimRight(digits, "0")
}

// MarshalJSON writes a JSON number.
func (m Marks) MarshalJSON() ([]byte, error) { return []byte(m.String()), nil }

// Float64 returns the nearest float.
func (m Marks) Float64() float64 { return float64(m) / float64(oneMark) }

// share returns m × part ÷ whole, rounded half away from zero, for 0 ≤ part ≤ whole and whole > 0.
func (m Marks) share(part, whole int) Marks {
	negative, magnitude := m < 0, uint64(m)
	if negative {
		magnitude = -magnitude
	}
	hi, lo := bits.Mul64(magnitude, 2*uint64(part))
	lo, carry := bits.Add64(lo, uint64(whole), 0)
	quotient, _ := bits.Div64(hi+carry, lo, 2*uint64(whole))
	if negative {
		return -Marks(quotient)
	}
	return Marks(quotient)
}

// Percentage is a percentage in hundredths: 0 to 10000.
type Percentage int32

// percentageOf returns raw as a share of maximum: two decimals, rounded half up, never below 0 nor above 100. Where
// nothing can be earned it is 0.
func percentageOf(raw, maximum Marks) Percentage {
	const hundred = 10000
	switch {
	case raw <= 0 || maximum <= 0:
		return 0
	case raw >= maximum:
		return hundred
	}
	hi, lo := bits.Mul64(uint64(raw), 2*hundred)
	lo, carry := bits.Add64(lo, uint64(maximum), 0)
	quotient, _ := bits.Div64(hi+carry, lo, 2*uint64(maximum))
	return Percentage(quotient)
}

// String prints the exact decimal, as short as it is.
func (p Percentage) String() string { return (Marks(p) * (oneMark / 100)).String() }

// MarshalJSON writes a JSON number.
func (p Percentage) MarshalJSON() ([]byte, error) { return []byte(p.String()), nil }

// Float64 returns the nearest float, which prints as the same two decimals.
func (p Percentage) Float64() float64 { return float64(p) / 100 }
