package marking

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"examprep.dev/server/attempts/marking/markingtest"
	"examprep.dev/server/catalog"
	"examprep.dev/server/testkit/check"
)

// TestRequestsShareAPreparedKey lets many requests at once use one key, for the race detector.
func TestRequestsShareAPreparedKey(t *testing.T) {
	t.Parallel()
	key := markingtest.EveryKind()
	key.Scoring = markingtest.EveryVerdict(len(key.Keys))
	paper := prepared(&key)
	result := func() ([]byte, error) {
		answers, err := paper.Read([]Answer{{"1:1", "b"}, {"2", "d,c,a"}, {"2:1", "12.50"}, {"3", ""}})
		if err != nil {
			return nil, err
		}
		stored := paper.AppendAnswers(nil, answers)
		return Feedback{Outcome: paper.Grade(answers)}.AppendJSON(slices.Clip(stored)), nil
	}
	want, err := result()
	check.NoError(t, err)
	var requests errgroup.Group
	for range 16 {
		requests.Go(func() error {
			for range 50 {
				if got, err := result(); err != nil || !bytes.Equal(got, want) {
					t.Errorf("got %s, %v, want %s", got, err, want)
				}
			}
			return nil
		})
	}
	check.NoError(t, requests.Wait())
}

func TestSizeOfAPreparedKeyGrowsWithItsContent(t *testing.T) {
	t.Parallel()
	key := markingtest.EveryKind()
	_, before := Prepare(&key)
	key.Keys[0].Explanation += strings.Repeat("x", 10_000)
	if _, longer := Prepare(&key); longer != before+10_000 {
		t.Errorf("%d bytes, and %d with 10,000 more of explanation", before, longer)
	}
	key.Keys = slices.Repeat(key.Keys[1:], 100)
	if _, more := Prepare(&key); more < 50*before || more > 200*before {
		t.Errorf("%d bytes, and %d with 100 times the questions", before, more)
	}
}

func TestAnswersOfOneLetterAreThoseOfTheGeneralForm(t *testing.T) {
	t.Parallel()
	paper := markingtest.EveryKind()
	for _, q := range paper.Keys {
		for c := range 256 {
			for _, letter := range []string{string([]byte{byte(c)}), string(rune(c))} {
				got, problem := normalise(q, letter)
				want, wantProblem := normalise(q, " "+letter+" ") // never takes the fast path
				if got != want || (problem == nil) != (wantProblem == nil) {
					t.Errorf("%s: %q became %q, %v, want %q, %v", q.Answer.Kind, letter, got, problem, want, wantProblem)
				}
			}
		}
	}
}

func TestKeyWithoutQuestions(t *testing.T) {
	t.Parallel()
	paper := prepared(&catalog.AnswerKey{})
	answers, err := paper.Read(nil)
	check.NoError(t, err)
	stored := paper.AppendAnswers(nil, answers)
	const feedback = `{"status":"","late":false,"correct_count":0,"incorrect_count":0,"unanswered_count":0,"ungraded_count":0,"questions":[],` +
		`"started_at":"0001-01-01T00:00:00Z","submitted_at":"0001-01-01T00:00:00Z","duration_sec":0}`
	if got := toJSON(t, Feedback{Outcome: paper.Grade(answers)}); got != feedback || string(stored) != "{}" {
		t.Errorf("stored %s, feedback %s", stored, got)
	}
}
