package crowdtest

import (
	"encoding/json"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
)

// Sheet is a filled-in answer sheet and what it must be worth.
type Sheet struct {
	Answers map[string]string
	// Raw and Max are marks; Score is the percentage as it must be printed.
	Raw, Max *big.Rat
	Score    string
}

// Answering is how a question is answered.
type Answering int

const (
	// Rightly answers every question right.
	Rightly Answering = iota
	// Not leaves every question out.
	Not
	// Anyhow answers right, wrong or not at all, by chance.
	Anyhow
)

// Fill answers every question of a paper in one way, and computes the score from the input alone: correct and incorrect
// marks as the paper says, annulled questions right for everyone, the percentage floored at 0 and rounded half up to two
// decimals.
func Fill(p *Paper, how Answering, chance *rand.Rand) Sheet {
	s := Sheet{Answers: map[string]string{}, Raw: new(big.Rat), Max: new(big.Rat)}
	correct, incorrect, unanswered := Number(p.Marking.Correct), Number(p.Marking.Incorrect), Number(p.Marking.Unanswered)
	for _, q := range p.Questions {
		way := how
		if how == Anyhow {
			way = []Answering{Rightly, Not, Anyhow, Anyhow}[chance.IntN(4)]
		}
		given, isRight := answer(q, way, chance)
		if given != "" {
			s.Answers[q.AnswerID()] = given
		}
		earned := incorrect
		switch {
		case isRight || q.Answer.Kind == "annulled":
			earned = correct
		case given == "":
			earned = unanswered
		}
		s.Raw.Add(s.Raw, earned)
		s.Max.Add(s.Max, correct)
	}
	s.Score = percentage(s.Raw, s.Max)
	return s
}

// answer gives an answer to one question and says whether it is right.
func answer(q Question, how Answering, chance *rand.Rand) (given string, isRight bool) {
	if how == Not {
		return "", false
	}
	switch q.Answer.Kind {
	case "choice":
		var key string
		mustDecode(q.Answer.Value, &key)
		given = key
		if how == Anyhow {
			given = pick(q.letters(), chance)
		}
		return given, given == key
	case "choices":
		var key []string
		mustDecode(q.Answer.Value, &key)
		chosen := slices.Clone(key)
		if how == Anyhow {
			chosen = slices.DeleteFunc(q.letters(), func(string) bool { return chance.IntN(2) == 0 })
		}
		isRight = slices.Equal(slices.Sorted(slices.Values(chosen)), slices.Sorted(slices.Values(key)))
		chance.Shuffle(len(chosen), func(i, j int) { chosen[i], chosen[j] = chosen[j], chosen[i] })
		return strings.Join(chosen, ""), isRight
	case "numeric":
		return answerNumber(q, how, chance)
	case "annulled":
		if len(q.Options) > 0 {
			given = pick(q.letters(), chance)
		}
		return given, true
	default:
		panic("the data sets have no answers of kind " + q.Answer.Kind)
	}
}

// answerNumber answers on, within and beyond the tolerance.
func answerNumber(q Question, how Answering, chance *rand.Rand) (given string, isRight bool) {
	const decimals = 12
	var key json.Number
	mustDecode(q.Answer.Value, &key)
	tolerance := new(big.Rat)
	if q.Answer.Tolerance != nil {
		tolerance = Number(*q.Answer.Tolerance)
	}
	off := new(big.Rat)
	isRight = true
	if how == Anyhow {
		switch chance.IntN(4) {
		case 0: // on the upper edge
			off.Set(tolerance)
		case 1: // on the lower edge
			off.Neg(tolerance)
		case 2: // just beyond
			off.Add(tolerance, big.NewRat(1, 1_000_000))
			isRight = false
		default:
		}
	}
	return new(big.Rat).Add(Number(key), off).FloatString(decimals), isRight
}

func pick(letters []string, chance *rand.Rand) string { return letters[chance.IntN(len(letters))] }

func percentage(raw, maximum *big.Rat) string {
	if raw.Sign() <= 0 || maximum.Sign() <= 0 {
		return "0"
	}
	hundredths := new(big.Rat).Quo(raw, maximum)
	hundredths.Mul(hundredths, big.NewRat(10000, 1)).Add(hundredths, big.NewRat(1, 2))
	rounded := new(big.Int).Quo(hundredths.Num(), hundredths.Denom())
	text := new(big.Rat).SetFrac(rounded, big.NewInt(100)).FloatString(2)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}

// Number reads a JSON number exactly.
func Number(n json.Number) *big.Rat {
	r, ok := new(big.Rat).SetString(n.String())
	if !ok {
		panic("not a number: " + n.String())
	}
	return r
}

func mustDecode(raw json.RawMessage, into any) {
	if err := json.Unmarshal(raw, into); err != nil {
		panic(err)
	}
}
