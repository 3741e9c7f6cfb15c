package attempts

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"examprep.dev/server/attempts/marking"
	"examprep.dev/server/attempts/marking/markingtest"
	"examprep.dev/server/catalog"
	"examprep.dev/server/catalog/catalogtest"
	"examprep.dev/server/testkit/check"
	"examprep.dev/server/testkit/race"
)

// resultsDigest is the SHA-256 of all results, as maps and encoding/json made them (commit 220ae0e), with two exceptions. In hostile
// sheets of papers with numeric questions a text is a wrong answer. A field of the feedback without a value is absent, not null.
const resultsDigest = "9368c1988cc4aa116a9394678333e5362cbe72e3c2677d3171253abb970031bd"

// sampleDigest is the digest of the results of the sets that [catalogtest.SampledSets] returns under the race detector.
const sampleDigest = "fb6fc3a4165abd256931120bed8936d6874307309cff1c0355cd5c746ae5b67e"

// TestResultsOfRealPapersKeepTheirBytes submits three sheets for each real paper, under its own scoring and under one
// that has every optional result. Stored answers, submission digest, feedback and refusals must keep every byte.
func TestResultsOfRealPapersKeepTheirBytes(t *testing.T) {
	t.Parallel()
	all, results, want := sha256.New(), 0, resultsDigest
	if race.Enabled {
		want = sampleDigest
	}
	for _, exam := range catalogtest.Exams(t, catalogtest.SampledSets(t)) {
		own, err := catalog.ParseScoring(exam.Scoring)
		check.NoError(t, err)
		for i := range exam.Papers {
			paper := &exam.Papers[i]
			for _, scoring := range []catalog.Scoring{own, markingtest.EveryVerdict(len(paper.Questions))} {
				key := realKey(paper, scoring)
				for _, sheet := range []string{"right", "random", "hostile"} {
					stored, digest, feedback, refused := realResult(t, &key, sheetOf(paper, &key, sheet))
					one := sha256.Sum256(fmt.Appendf(nil, "%s\n%x\n%s\n%s", stored, digest, feedback, refused))
					_, _ = fmt.Fprintf(all, "%s %s %x\n", paper.ID, sheet, one)
					results++
				}
			}
		}
	}
	if !race.Enabled {
		check.Equal(t, results, catalogtest.Papers*2*3, "results")
	}
	check.Equal(t, hex.EncodeToString(all.Sum(nil)), want, "digest of the results")
}

// realResult submits a sheet. Answers that are refused on their own are left out, and the refusal of the whole is returned.
func realResult(t *testing.T, key *catalog.AnswerKey, sheet []marking.Answer) (stored, digest, feedback []byte, refused string) {
	t.Helper()
	paper, _ := marking.Prepare(key)
	if _, err := paper.Read(sheet); err != nil {
		problem, isClients := errors.AsType[*Error](err)
		if !isClients {
			t.Fatal(err)
		}
		refused = fmt.Sprint(problem.Code, problem.Detail, problem.Fields)
		sheet = slices.DeleteFunc(sheet, func(a marking.Answer) bool {
			_, err := paper.Read([]marking.Answer{a})
			return err != nil
		})
	}
	sub, err := readSubmission(paper, SubmitRequest{Answers: sheet})
	check.NoError(t, err)
	at := time.Date(2026, 3, 1, 9, 0, 0, 120_000_000, time.UTC)
	result := marking.Feedback{
		Status: string(StateExpired), Late: true, OvertimeSec: 61, Outcome: paper.Grade(sub.answers),
		StartedAt: at, SubmittedAt: at.Add(time.Hour), DurationSec: 3600,
	}
	return sub.stored, sub.digest[:], result.AppendJSON(nil), refused
}

// realKey is the key that the catalogue keeps of a paper.
func realKey(paper *catalog.Paper, scoring catalog.Scoring) catalog.AnswerKey {
	key := catalog.AnswerKey{Marking: *paper.Marking, Scoring: scoring}
	for i := range paper.Questions {
		q := &paper.Questions[i]
		answer := q.Answer
		answer.Choices = slices.Sorted(slices.Values(answer.Choices))
		key.Keys = append(key.Keys, catalog.QuestionKey{
			Section: q.Section, SectionName: q.SectionName, Number: q.Number,
			Letters: slices.Sorted(maps.Keys(q.Options)), Answer: answer, Explanation: q.Explanation, Topic: q.Topic,
		})
	}
	return key
}

// sheetOf makes the same answers at each call.
func sheetOf(paper *catalog.Paper, key *catalog.AnswerKey, name string) []marking.Answer {
	seed := fnv.New64a()
	_, _ = seed.Write([]byte(paper.ID + name))
	random := rand.New(rand.NewPCG(seed.Sum64(), 38))
	var sheet []marking.Answer
	for _, q := range key.Keys {
		right := rightAnswer(q)
		id := strconv.Itoa(q.Section) + ":" + strconv.Itoa(q.Number)
		switch name {
		case "right":
			sheet = append(sheet, marking.Answer{Key: id, Value: right})
		case "random":
			wrong := []string{"", "7", "-12.5e0", strconv.Itoa(random.IntN(100))}
			if len(q.Letters) > 0 {
				letter := func() string { return q.Letters[random.IntN(len(q.Letters))] }
				wrong = []string{"", letter(), letter(), letter()}
				if q.Answer.Kind != catalog.AnswerChoice {
					wrong = append(wrong, letter()+letter(), letter()+letter()+letter())
				}
			}
			sheet = append(sheet, marking.Answer{Key: id, Value: append(wrong, right)[random.IntN(len(wrong)+1)]})
		default:
			if random.IntN(2) == 0 {
				id = strconv.Itoa(q.Number)
			}
			hostile := []string{
				" \n", "a", "B", " c\t", "d, a ,a", "\xff", "<b>&", "e\u0301\u2028x", strings.ToLower(right), "\x00" + right + " ",
				right + ".", "+" + right, "1e999", "NaN", "0x1", "\u212a", strings.Repeat("a", 4097),
			}
			sheet = append(sheet, marking.Answer{Key: id, Value: hostile[random.IntN(len(hostile))]})
		}
	}
	if name != "right" {
		random.Shuffle(len(sheet), func(i, j int) { sheet[i], sheet[j] = sheet[j], sheet[i] })
	}
	return sheet
}

func rightAnswer(q catalog.QuestionKey) string {
	switch q.Answer.Kind {
	case catalog.AnswerChoice, catalog.AnswerChoices:
		return strings.Join(q.Answer.Choices, "")
	case catalog.AnswerNumeric:
		return strconv.FormatFloat(q.Answer.Number, 'g', -1, 64)
	case catalog.AnswerText:
		return q.Answer.Text
	default:
		return ""
	}
}
