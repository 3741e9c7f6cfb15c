package attempts

import (
	"errors"
	"slices"
	"time"

	"pgregory.net/rapid"

	"examprep.dev/server/attempts/marking"
	"examprep.dev/server/attempts/marking/markingtest"
	"examprep.dev/server/keys"
	"examprep.dev/server/testkit"
)

// claim is who says the attempt is theirs.
type claim struct {
	who     keys.Identity
	exam    string
	learner string
}

// owner is the attempt's owner, by any key of the family.
func (w *world) owner(t *rapid.T, a *modelAttempt) claim {
	var family []keys.Identity
	for _, who := range w.people {
		if who.FamilyID == a.family {
			family = append(family, who)
		}
	}
	return claim{rapid.SampledFrom(family).Draw(t, "key"), a.exam, a.learner}
}

// claimant is mostly the attempt's owner; else one thing or all may be wrong.
func (w *world) claimant(t *rapid.T, a *modelAttempt) claim {
	by := w.owner(t, a)
	switch rapid.IntRange(0, 12).Draw(t, "claimant") {
	case 9:
		by.who = w.somebody(t)
	case 10:
		by.exam = modelExams[1-slices.Index(modelExams, a.exam)]
	case 11:
		by.learner = w.aLearner(t)
	case 12:
		return claim{w.somebody(t), w.anExam(t), w.aLearner(t)}
	}
	return by
}

// submits sends random answers to a random attempt, mostly as its owner.
func (w *world) submits(t *rapid.T) {
	if len(w.attempts) == 0 {
		return
	}
	s := w.drawSubmit(t, rapid.SampledFrom(w.attempts).Draw(t, "attempt"))
	s.send(t)
	w.submitted(t, s)
}

// retries repeats an accepted submission in other words, seldom with one thing changed.
func (w *world) retries(t *rapid.T) {
	var done []*modelAttempt
	for _, a := range w.attempts {
		if a.first != nil {
			done = append(done, a)
		}
	}
	if len(done) == 0 {
		w.submits(t)
		return
	}
	a := rapid.SampledFrom(done).Draw(t, "attempt")
	status, meant := a.first.status, a.first.answers
	switch rapid.IntRange(0, 7).Draw(t, "change") {
	case 6:
		status = rapid.SampledFrom([]State{StateSubmitted, StateExpired, StateAbandoned}).Draw(t, "status")
	case 7:
		meant = slices.Clone(meant)
		i := rapid.IntRange(0, len(meant)-1).Draw(t, "question")
		meant[i] = drawMeant(t, a.edition.key.Keys[i])
	}
	sheet := respell(t, a.edition.key, meant)
	if seldom(t, "mistake") {
		sheet.spoil(t, a.edition.key)
	}
	s := &modelSubmit{pod: w.aPod(t), attempt: a, by: w.claimant(t, a), status: status, sheet: sheet}
	s.send(t)
	w.submitted(t, s)
}

// submitted checks the answer to a submission against every rule, in the order in which they hold.
func (w *world) submitted(t *rapid.T, s *modelSubmit) {
	a, by, status, sheet, got, err := s.attempt, s.by, s.status, s.sheet, s.got, s.err
	if status == "" {
		status = StateSubmitted
	}
	switch {
	case by.who.FamilyID != a.family || by.exam != a.exam || by.learner != a.learner:
		w.refusesStranger(t, a, by, err)
	case a.swept || (a.state == StateInProgress && a.over(w.now(), modelWindow)):
		mustRefuse(t, err, CodeAttemptClosed)
		w.sawIf(a.swept, "submit: attempt_closed after the sweep")
		w.sawIf(!a.swept, "submit: attempt_closed before the sweep")
		w.sawIf(!a.over(w.now(), modelWindow+time.Microsecond), "submit: a moment too late")
		a.state, a.swept = StateExpired, true // for good: there is nothing left for the sweep
	case sheet.mistake != "":
		mustRefuse(t, err, sheet.mistake)
		var refused *Error
		if errors.As(err, &refused); len(refused.Fields) != 1 || refused.Fields[0].Field != "answers."+sheet.at {
			t.Fatalf("%v blames %v, want answers.%s", err, refused.Fields, sheet.at)
		}
		w.saw("bad: " + sheet.mistake)
		w.sawIf(a.first != nil, "again: bad answers")
	case a.first != nil:
		w.again(t, a, status, sheet, got, err)
	case err != nil:
		t.Fatal(err)
	default:
		w.first(t, a, by, status, sheet, got)
	}
}

func (w *world) refusesStranger(t *rapid.T, a *modelAttempt, by claim, err error) {
	if !w.isServed(by.exam) {
		mustRefuse(t, err, CodeExamNotFound)
		w.sawIf(by.exam != a.exam, "submit: another exam, withdrawn")
		return
	}
	mustRefuse(t, err, CodeAttemptNotFound)
	sameKey, sameExam, sameLearner := by.who.FamilyID == a.family, by.exam == a.exam, by.learner == a.learner
	w.sawIf(!sameKey && sameExam && sameLearner, "submit: another key")
	w.sawIf(sameKey && !sameExam && sameLearner, "submit: another exam")
	w.sawIf(sameKey && sameExam && !sameLearner, "submit: another learner")
}

// again is a second submission of the owner: repeated byte by byte, or refused.
func (w *world) again(t *rapid.T, a *modelAttempt, status State, sheet modelSheet, got Result, err error) {
	if a.first.status != status || !slices.Equal(a.first.answers, sheet.meant) {
		mustRefuse(t, err, CodeAlreadySubmitted)
		w.sawIf(a.first.status == status, "again: other answers")
		w.sawIf(slices.Equal(a.first.answers, sheet.meant), "again: another status")
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	if body := string(got.Feedback.AppendJSON(nil)); !got.Repeated || body != a.first.feedback || got.AttemptID != a.id {
		t.Fatalf("%s repeated %v:\n got %s\nwant %s", got.AttemptID, got.Repeated, body, a.first.feedback)
	}
	w.saw("again: repeated")
	w.sawIf(a.over(w.now(), modelWindow), "again: repeated after the window")
	w.sawIf(w.isRepublished(a), "again: repeated after a republication")
	w.sawIf(status == StateAbandoned, "again: abandoned repeated")
}

// isRepublished reports whether the attempt's edition is no longer the published one.
func (w *world) isRepublished(a *modelAttempt) bool {
	editions := w.shelf.exams[a.exam][a.paper]
	return editions[len(editions)-1] != a.edition
}

// first is the submission that counts.
func (w *world) first(t *rapid.T, a *modelAttempt, by claim, status State, sheet modelSheet, got Result) {
	now := w.now()
	late := status != StateAbandoned && a.over(now, modelGrace)
	a.state = status
	if late {
		a.state = StateExpired
	}
	a.first = &modelSubmission{
		status: status, answers: sheet.meant, at: now, account: by.who.AccountID, feedback: string(got.Feedback.AppendJSON(nil)),
	}
	_, outOf := markingtest.Naive(*a.edition.key, sheet.meant)
	w.sawIf(outOf.Sign() == 0 && status != StateAbandoned, "submit: essays only")
	if status != StateAbandoned && outOf.Sign() > 0 {
		a.first.score = new(marking.Percentage(markingtest.NaivePercentage(markingtest.Naive(*a.edition.key, sheet.meant))))
	}
	if got.Repeated || got.AttemptID != a.id {
		t.Fatalf("%s repeated %v", got.AttemptID, got.Repeated)
	}
	expected := a.expectedFeedback(late)
	mustEqualJSON(t, a.first.feedback, expected)
	w.sawFeedback(a.edition.key, expected)
	w.sawSubmission(a, by, sheet, late)
}

func (w *world) sawSubmission(a *modelAttempt, by claim, sheet modelSheet, late bool) {
	now, at := w.now(), func(d time.Duration) bool { return a.deadline != nil && w.now().Equal(a.deadline.Add(d)) }
	w.saw("submit: in_progress → " + string(a.state))
	w.sawIf(late, "submit: late")
	w.sawIf(late && a.first.status == StateExpired, "submit: late with status expired")
	w.sawIf(a.state == StateAbandoned && a.over(now, modelGrace), "submit: late but abandoned")
	w.sawIf(a.over(now, 0) && !a.over(now, modelGrace), "submit: within the grace")
	w.sawIf(at(0), "submit: at the deadline")
	w.sawIf(at(modelGrace), "submit: at the end of the grace")
	w.sawIf(at(modelGrace+time.Microsecond), "submit: a moment after the grace")
	w.sawIf(at(modelWindow), "submit: at the last moment")
	w.sawIf(by.who.KeyID == w.people[2].KeyID, "submit: by a rotated key")
	w.sawIf(w.isRepublished(a), "submit: after a republication")
	_, withdrawn := w.published(a.exam, a.paper)
	w.sawIf(withdrawn != "", "submit: after a withdrawal")
	w.sawIf(a.deadline == nil, "submit: without a limit")
	w.sawIf(len(sheet.given) == 0, "submit: without answers")
	w.sawIf(sheet.plain, "submit: a plain number")
	w.sawIf(sheet.blank, "submit: a blank answer")
}

func mustRefuse(t *rapid.T, err error, code string) {
	t.Helper()
	var refused *Error
	if !errors.As(err, &refused) || refused.Code != code {
		t.Fatalf("got %v, want %s", err, code)
	}
}

func mustJSON(t *rapid.T, v any) string {
	t.Helper()
	text := testkit.Encode(t, v)
	return string(text)
}
