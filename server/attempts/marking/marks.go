package marking

import (
	"bytes"
	"math"
	"math/big"
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

// decimalOf returns the shortest decimal that reads back as x; nil for an infinity and NaN.
func decimalOf(x float64) *big.Rat {
	if math.IsInf(x, 0) || math.IsNaN(x) {
		return nil
	}
	exact, _ := new(big.Rat).SetString(formatNumber(x))
	return exact
}

// atLeast returns the lowest marks that are not less than a number of marks. It saturates; nil is more than any paper has.
func atLeast(score *big.Rat) marks {
	if score == nil {
		return math.MaxInt64
	}
	millionths := new(big.Int).Mul(score.Num(), big.NewInt(int64(oneMark)))
	quotient, rest := new(big.Int).DivMod(millionths, score.Denom(), new(big.Int)) // rounded down
	if rest.Sign() > 0 {
		quotient.Add(quotient, big.NewInt(1))
	}
	switch {
	case quotient.IsInt64():
		return marks(quotient.Int64())
	case quotient.Sign() < 0:
		return math.MinInt64
	default:
		return math.MaxInt64
	}
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
