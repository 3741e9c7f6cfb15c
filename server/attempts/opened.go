package attempts

import (
	"bytes"
	"strings"

	"examprep.dev/server/keys"
	"examprep.dev/server/postgres/attemptsdb"
)

// maxOpened is the maximum number of attempts that a pod remembers, about 450 bytes each.
const maxOpened = 1 << 14

// remember keeps a new attempt, so that its submission needs no read. The copy shares no memory with a request or a paper.
func (s *Service) remember(p attemptsdb.OpenAttemptParams) {
	p.ExamKey, p.PaperID, p.PaperDigest = strings.Clone(p.ExamKey), strings.Clone(p.PaperID), bytes.Clone(p.PaperDigest)
	s.opened.Set(p.ID, p)
}

// findOpened returns an attempt that this pod opened, of this key family, exam and learner. It is in progress, with the same
// deadline, unless the row was changed; the statement that closes the attempt checks both.
func (s *Service) findOpened(who keys.Identity, req SubmitRequest) (attemptRow, bool) {
	id, ok := parseID(req.AttemptID)
	if !ok {
		return attemptRow{}, false
	}
	p, ok := s.opened.GetIfPresent(id)
	if !ok || p.FamilyID != who.FamilyID || p.ExamKey != req.ExamKey || !bytes.Equal(p.Learner, s.learner(who, req.LearnerID)) {
		return attemptRow{}, false
	}
	return attemptRow{attemptsdb.FindAttemptRow{
		ID: p.ID, PaperID: p.PaperID, PaperDigest: p.PaperDigest, State: string(StateInProgress), ScoringStatus: pending,
		QuestionCount: p.QuestionCount, OpenedAt: p.OpenedAt, ExpiresAt: p.ExpiresAt,
	}}, true
}
