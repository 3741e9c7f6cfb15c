package marking

import (
	"math"
	"math/big"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"examprep.dev/server/attempts/marking/markingtest"
)

func TestMarksPrintTheExactDecimal(t *testing.T) {
	t.Parallel()
	for want, m := range map[string]marks{
		"0": 0, "1": oneMark, "-1": -oneMark, "0.333333": 333_333, "-0.25": -250_000, "66.5": 66_500_000,
		"-9223372036854.775808": math.MinInt64,
	} {
		if got := m.String(); got != want {
			t.Errorf("marks(%d) prints %s, want %s", int64(m), got, want)
		}
	}
}

func TestMarksOfAFloatAreTheNearestMillionth(t *testing.T) {
	t.Parallel()
	for x, want := range map[float64]marks{
		0.1: 100_000, -0.333333: -333_333, 1.0 / 3: 333_333, 2.0 / 3: 666_667, 4: 4 * oneMark,
		1e300: maxMarks, math.Inf(-1): -maxMarks, math.NaN(): 0,
	} {
		if got := marksOf(x); got != want {
			t.Errorf("marksOf(%v) = %s, want %s", x, got, want)
		}
	}
}

func TestAPercentageRoundsHalfUpAndStaysInItsBounds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		raw, maximum marks
		want         string
	}{
		{1, 3, "33.33"},
		{2, 3, "66.67"},
		{1, 8, "12.5"},
		{1, 16, "6.25"},
		{1, 32, "3.13"},
		{3, 32, "9.38"},
		{-5, 10, "0"},
		{5, 0, "0"},
		{0, 0, "0"},
		{7, 7, "100"},
		{9, 7, "100"},
		{99_999, 100_000, "100"},
		{1, 100_000, "0"},
	} {
		if got := percentageOf(c.raw*oneMark, c.maximum*oneMark).String(); got != c.want {
			t.Errorf("%d of %d: got %s, want %s", c.raw, c.maximum, got, c.want)
		}
	}
}

func TestDivisionsAgreeWithRationals(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		const most = 400_000_000 * int64(oneMark)
		raw := rapid.Int64Range(0, most).Draw(t, "raw")
		maximum := rapid.Int64Range(1, most).Draw(t, "maximum")
		want := int64(10000)
		if raw < maximum {
			want = markingtest.HalfUp(new(big.Rat).Mul(big.NewRat(raw, maximum), big.NewRat(10000, 1)))
		}
		if got := percentageOf(marks(raw), marks(maximum)); int64(got) != want {
			t.Fatalf("%d of %d: got %d, want %d", raw, maximum, got, want)
		}

		m := rapid.Int64Range(-int64(maxMarks), int64(maxMarks)).Draw(t, "marks")
		whole := rapid.IntRange(1, 26).Draw(t, "whole")
		part := rapid.IntRange(0, whole).Draw(t, "part")
		wantShare := markingtest.HalfUp(new(big.Rat).Mul(big.NewRat(max(m, -m), 1), big.NewRat(int64(part), int64(whole))))
		if m < 0 {
			wantShare = -wantShare
		}
		if got := marks(m).share(part, whole); int64(got) != wantShare {
			t.Fatalf("%d × %d/%d: got %d, want %d", m, part, whole, got, wantShare)
		}
	})
}

func TestAPercentageSurvivesTheTripThroughAFloat(t *testing.T) {
	t.Parallel()
	for p := range Percentage(10001) {
		if got := strconv.FormatFloat(p.Float64(), 'f', -1, 64); got != p.String() {
			t.Fatalf("%d: the float prints %s, the percentage %s", int32(p), got, p)
		}
	}
}

func (m marks) String() string { return string(m.append(nil)) }
