package attempts

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"examprep.dev/server/attempts/marking"
	"examprep.dev/server/keys"
	"examprep.dev/server/postgres"
	"examprep.dev/server/postgres/attemptsdb"
	"examprep.dev/server/webhooks"
)

// SubmitRequest ends an attempt.
type SubmitRequest struct {
	ExamKey   string
	AttemptID string
	// Status is what the client reports: StateSubmitted (also when empty), StateExpired (its own timer ran out) or
	// StateAbandoned.
	Status    State
	LearnerID string
	// Answers may be empty, and may leave questions out.
	Answers []marking.Answer
}

// Result is an accepted submission.
type Result struct {
	AttemptID string
	Feedback  marking.Feedback
	// Repeated reports whether the attempt had been submitted before, with the same answers and status: nothing was written.
	Repeated bool
}

// submission is what a request comes down to.
type submission struct {
	requested State
	answers   []string
	// stored is the answers as they are kept; digest recognises a retry: SHA-256 of requested and stored.
	stored []byte
	digest [sha256.Size]byte
}

// Submit ends an attempt: one read, unless this pod opened it, and one statement that writes state, answers, score and
// events together. Once only: a second submission, and the losers among several at once, are answered from what the first
// one wrote.
func (s *Service) Submit(ctx context.Context, who keys.Identity, req SubmitRequest) (Result, error) {
	attempt, err := s.find(ctx, who, req.ExamKey, req.AttemptID, req.LearnerID)
	if err != nil {
		return Result{}, err
	}
	now := s.clock()
	if State(attempt.State) == StateInProgress && deadlinePassed(attempt.ExpiresAt, now, lateWindow) {
		// The sweep has not closed it yet. PostgreSQL's clock decides, and without the write an earlier submission, not written
		// yet, could still win.
		overdue := attemptsdb.ExpireAttemptParams{ID: attempt.ID, LateSeconds: lateWindow.Seconds()}
		if err := s.queries.ExpireAttempt(ctx, overdue); err != nil {
			return Result{}, fmt.Errorf("close overdue attempt: %w", err)
		}
		s.opened.Invalidate(attempt.ID)
		if attempt, err = s.find(ctx, who, req.ExamKey, req.AttemptID, req.LearnerID); err != nil {
			return Result{}, err
		}
	}
	if State(attempt.State) != StateInProgress && attempt.SubmissionDigest == nil { // its time was over before any submission
		return Result{}, &Error{Code: CodeAttemptClosed, Detail: "The attempt's time was over more than 24 hours ago."}
	}
	digest, err := paperDigest(attempt.PaperDigest)
	if err != nil {
		return Result{}, err
	}
	key, err := s.papers.AnswerKey(ctx, req.ExamKey, digest)
	if err != nil {
		return Result{}, fmt.Errorf("read answer key of attempt %s: %w", attempt.ID, err)
	}
	sub, err := readSubmission(key, req)
	if err != nil {
		return Result{}, err
	}
	if State(attempt.State) != StateInProgress {
		return attempt.replay(key, sub)
	}
	closing := attempt.conclude(sub, now, key.Markable())
	result, written, err := s.close(ctx, who, req, closing, key, sub)
	if err != nil || written {
		return result, err
	}
	// Another submission or the sweep was faster, or the attempt's deadline was changed. PostgreSQL has the row.
	return s.Submit(ctx, who, req)
}

// readSubmission validates and normalises what the client sent.
func readSubmission(key *marking.Key, req SubmitRequest) (submission, error) {
	sub := submission{requested: req.Status}
	switch req.Status {
	case "":
		sub.requested = StateSubmitted
	case StateSubmitted, StateExpired, StateAbandoned:
	default:
		const detail = "must be submitted, expired or abandoned"
		return sub, &Error{
			Code: CodeValidationFailed, Detail: "status " + detail + ".",
			Fields: []marking.FieldError{{Field: "status", Detail: detail}},
		}
	}
	var err error
	if sub.answers, err = key.Read(req.Answers); err != nil {
		return sub, err
	}
	head := string(sub.requested) + "\n"
	text := key.AppendAnswers([]byte(head), sub.answers)
	sub.stored, sub.digest = text[len(head):], sha256.Sum256(text)
	return sub, nil
}

// attemptRow is an attempt as Submit reads it.
type attemptRow attemptsdb.FindAttemptRow

// remember keeps a new attempt, so that its submission needs no read. The copy shares no memory with a request or a paper.
func (s *Service) remember(p attemptsdb.OpenAttemptParams) {
	s.opened.Set(p.ID, &attemptRow{
		ID: p.ID, FamilyID: p.FamilyID, ExamKey: strings.Clone(p.ExamKey), Learner: p.Learner,
		PaperID: strings.Clone(p.PaperID), PaperDigest: bytes.Clone(p.PaperDigest), State: string(StateInProgress),
		ScoringStatus: pending, QuestionCount: p.QuestionCount, OpenedAt: p.OpenedAt, ExpiresAt: p.ExpiresAt,
	})
}

// find returns an attempt of the caller; any other is not found. It reads only attempts that this pod does not remember. A
// remembered one is in progress, with the same deadline, unless the row was changed; the statement that closes it checks both.
func (s *Service) find(ctx context.Context, who keys.Identity, examKey, attemptID, learnerID string) (*attemptRow, error) {
	if id, ok := parseID(attemptID); ok {
		a, known := s.opened.GetIfPresent(id)
		if !known {
			var err error
			if a, err = s.writer.finds.do(ctx, who.FamilyID, id); err != nil {
				return nil, fmt.Errorf("read attempt: %w", err)
			}
		}
		if a != nil && a.FamilyID == who.FamilyID && a.ExamKey == examKey && bytes.Equal(a.Learner, s.learner(who, learnerID)) {
			return a, nil
		}
	}
	// An attempt is submitted and paged even after its exam was withdrawn; only where there is none does the exam matter.
	if err := s.checkExam(examKey); err != nil {
		return nil, err
	}
	return nil, attemptNotFound()
}

func attemptNotFound() *Error { return &Error{Code: CodeAttemptNotFound, Detail: "No such attempt."} }

// close writes the submission. It reports false, and has written nothing, when another one was faster, or when the attempt's
// deadline was changed. The pod then forgets the attempt.
func (s *Service) close(
	ctx context.Context, who keys.Identity, req SubmitRequest, attempt attemptRow, key *marking.Key, sub submission,
) (Result, bool, error) {
	params := attemptsdb.CloseAttemptParams{
		ID: attempt.ID, State: attempt.State, ScoringStatus: attempt.ScoringStatus, SubmittedAt: attempt.SubmittedAt,
		Late: attempt.Late, OvertimeSec: attempt.OvertimeSec,
		Answers: sub.stored, SubmissionDigest: sub.digest[:], ExpiresAt: attempt.ExpiresAt,
		EventIds: []uuid.UUID{}, EventKinds: []string{}, EventBodies: [][]byte{}, Traceparent: postgres.Traceparent(ctx),
	}
	outcome := attempt.grade(key, sub)
	if attempt.ScoringStatus == scored {
		params.ScoreHundredths = new(int32(outcome.Score))
	}
	if outcome != nil {
		events, err := attempt.events(who, req, outcome)
		if err != nil {
			return Result{}, false, err
		}
		for _, event := range events {
			params.EventIds = append(params.EventIds, event.ID)
			params.EventKinds = append(params.EventKinds, string(event.Kind))
			params.EventBodies = append(params.EventBodies, event.Body)
		}
	}
	written, err := s.writer.closes.do(ctx, who.FamilyID, params)
	if err != nil {
		return Result{}, false, fmt.Errorf("close attempt: %w", err)
	}
	s.opened.Invalidate(attempt.ID)
	if !written.Closed {
		return Result{}, false, nil
	}
	return Result{AttemptID: attempt.ID.String(), Feedback: attempt.feedback(outcome)}, true, nil
}

// conclude decides the terminal state. An abandoned attempt stays abandoned, early or late. Any other is late after the grace,
// and a late one has expired, whatever the client reports. A paper of which nothing is markable has no score.
func (a attemptRow) conclude(sub submission, now time.Time, markable bool) attemptRow {
	a.SubmittedAt = &now
	a.State, a.ScoringStatus = string(sub.requested), scored
	if sub.requested == StateAbandoned || !markable {
		a.ScoringStatus = notScored
	}
	if sub.requested != StateAbandoned && deadlinePassed(a.ExpiresAt, now, grace) {
		a.State, a.Late = string(StateExpired), true
		a.OvertimeSec = int32(now.Sub(*a.ExpiresAt) / time.Second)
	}
	return a
}

// events returns the events of a submission: one, and another one of its score if it has one.
func (a attemptRow) events(who keys.Identity, req SubmitRequest, outcome *marking.Outcome) ([]webhooks.Event, error) {
	account := uuid.NullUUID{UUID: who.AccountID, Valid: true}
	submitted, err := webhooks.NewEvent(webhooks.KindSubmitted, account, *a.SubmittedAt, webhooks.AttemptSubmitted{
		AttemptID: a.ID.String(), ExamKey: req.ExamKey, PaperID: a.PaperID, Status: a.State, SubmittedAt: *a.SubmittedAt,
		QuestionCount: int(a.QuestionCount), AnsweredCount: outcome.AnsweredCount, LearnerIDProvided: req.LearnerID != "",
	})
	if err != nil || a.ScoringStatus != scored {
		return []webhooks.Event{submitted}, err
	}
	result, err := webhooks.NewEvent(webhooks.KindScored, account, *a.SubmittedAt, webhooks.AttemptScored{
		AttemptID: a.ID.String(), ExamKey: req.ExamKey, PaperID: a.PaperID, Score: outcome.Score.Float64(),
		LearnerIDProvided: req.LearnerID != "",
	})
	return []webhooks.Event{submitted, result}, err
}

// replay answers a second submission: the stored result for the same one, a refusal for another.
func (a attemptRow) replay(key *marking.Key, sub submission) (Result, error) {
	if !bytes.Equal(a.SubmissionDigest, sub.digest[:]) {
		return Result{}, &Error{
			Code:   CodeAlreadySubmitted,
			Detail: "The attempt was submitted before, with other answers or another status.",
		}
	}
	outcome := a.grade(key, sub) // equal digests are of equal answers
	if a.ScoreHundredths != nil {
		// The score that was given stands, also should a later version of this program count otherwise.
		outcome.Score = marking.Percentage(*a.ScoreHundredths)
	}
	return Result{AttemptID: a.ID.String(), Feedback: a.feedback(outcome), Repeated: true}, nil
}

// grade marks a submission; nil if it gives the attempt up.
func (a attemptRow) grade(key *marking.Key, sub submission) *marking.Outcome {
	if State(a.State) == StateAbandoned {
		return nil
	}
	return key.Grade(sub.answers)
}

func (a attemptRow) feedback(outcome *marking.Outcome) marking.Feedback {
	return marking.Feedback{
		Status: a.State, Late: a.Late, OvertimeSec: int64(a.OvertimeSec), Outcome: outcome,
		StartedAt: a.OpenedAt.UTC(), SubmittedAt: a.SubmittedAt.UTC(),
		DurationSec: int64(a.SubmittedAt.Sub(a.OpenedAt) / time.Second),
	}
}
