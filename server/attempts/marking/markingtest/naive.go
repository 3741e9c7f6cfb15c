package markingtest

import (
	"encoding/json"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"examprep.dev/server/catalog"
)

const oneMark = 1_000_000 // marks have six decimals

// HalfUp rounds a rational that is not negative.
func HalfUp(x *big.Rat) int64 {
	x = new(big.Rat).Add(x, big.NewRat(1, 2))
	return new(big.Int).Quo(x.Num(), x.Denom()).Int64()
}

// NaivePercentage returns raw as a percentage of maximum, in hundredths.
func NaivePercentage(raw, maximum *big.Rat) int64 {
	if raw.Sign() <= 0 || maximum.Sign() <= 0 {
		return 0
	}
	return min(10000, HalfUp(new(big.Rat).Mul(new(big.Rat).Quo(raw, maximum), big.NewRat(10000, 1))))
}

// Naive scores by rationals and sets of letters, question by question, and shares no code with the product.
func Naive(key catalog.AnswerKey, answers []string) (raw, maximum *big.Rat) {
	raw, maximum = new(big.Rat), new(big.Rat)
	for i, q := range key.Keys {
		if q.Answer.Kind != catalog.AnswerUnmarkable {
			earned, _ := NaiveMarks(key, q.Answer, answers[i])
			raw.Add(raw, earned)
			maximum.Add(maximum, Exact(key.Marking.Correct))
		}
	}
	return raw, maximum
}

// NaiveMarks returns the marks that an answer to a question earns, and whether it is right.
func NaiveMarks(key catalog.AnswerKey, wanted catalog.Answer, given string) (earned *big.Rat, isRight bool) {
	correct := Exact(key.Marking.Correct)
	switch hits, misses := naiveHits(wanted, given); {
	case wanted.Kind == catalog.AnswerAnnulled, hits == naiveWanted(wanted) && misses == 0:
		return correct, true
	case given == "":
		return Exact(key.Marking.Unanswered), false
	case wanted.Kind == catalog.AnswerChoices && key.Scoring.PartialCredit && misses == 0:
		millionths := HalfUp(new(big.Rat).Mul(correct, big.NewRat(int64(hits)*oneMark, int64(len(wanted.Choices)))))
		return big.NewRat(millionths, oneMark), false
	default:
		return Exact(key.Marking.Incorrect), false
	}
}

func naiveWanted(answer catalog.Answer) int {
	if answer.Kind == catalog.AnswerChoices {
		return len(answer.Choices)
	}
	return 1
}

// naiveHits counts what is right and what is wrong in an answer.
func naiveHits(answer catalog.Answer, given string) (hits, misses int) {
	if given == "" {
		return 0, 0
	}
	isRight := false
	switch answer.Kind {
	case catalog.AnswerChoice, catalog.AnswerChoices:
		for letter := range strings.SplitSeq(given, "") {
			if slices.Contains(answer.Choices, letter) {
				hits++
			} else {
				misses++
			}
		}
		return hits, misses
	case catalog.AnswerNumeric:
		x, isNumber := new(big.Rat).SetString(given)
		if !isNumber || strings.Contains(given, "/") {
			return 0, 1
		}
		low := new(big.Rat).Sub(Exact(answer.Number), Exact(answer.Tolerance))
		high := new(big.Rat).Add(Exact(answer.Number), Exact(answer.Tolerance))
		isRight = low.Cmp(x) <= 0 && x.Cmp(high) <= 0
	case catalog.AnswerText:
		isRight = strings.EqualFold(strings.Join(strings.Fields(answer.Text), " "), given)
	default:
	}
	if isRight {
		return 1, 0
	}
	return 0, 1
}

// Exact returns the decimal that x prints as.
func Exact(x float64) *big.Rat {
	r, _ := new(big.Rat).SetString(strconv.FormatFloat(x, 'f', -1, 64))
	return r
}

// Decimal prints a number of millionths as JSON, as short as it is.
func Decimal(x *big.Rat) json.RawMessage {
	text := x.FloatString(6)
	text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	if text == "" || text == "-" || text == "-0" {
		text = "0"
	}
	return json.RawMessage(text)
}
