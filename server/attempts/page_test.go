package attempts

import (
	"strings"
	"testing"

	"github.com/google/uuid"

	"examprep.dev/server/attempts/marking/markingtest"
	"examprep.dev/server/keys"
	"examprep.dev/server/testkit/check"
)

// TestAnAttemptsIDDecidesTheRevision pages two attempts of one key without learners, on two revisions.
func TestAnAttemptsIDDecidesTheRevision(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.shelf.publish(testExam, testPaper, minutes, markingtest.EveryKind())
	who := b.someone(t)
	early := b.open(t, who, "")
	b.shelf.publish(testExam, testPaper, minutes, markingtest.EveryKind())
	late, anns := b.open(t, who, ""), b.open(t, who, "ann")
	b.shelf.publish(testExam, "another-paper", minutes, markingtest.EveryKind())
	request := PageRequest{ExamKey: testExam, PaperID: testPaper, Limit: 1}
	pods := []*Service{b.Service, b.pod(t)} // the second one remembers no attempt
	reads := func(when string) {
		t.Helper()
		for _, pod := range pods {
			for id, want := range map[string]string{early.AttemptID: "revision 0", late.AttemptID: "revision 1", "": "revision 1"} {
				req := request
				req.AttemptID = id
				page, err := pod.Page(t.Context(), who, req)
				if err != nil || page.Total != 6 || !strings.Contains(string(page.Questions[0]), want) {
					t.Errorf("%s, attempt %q: %s, %v; want %s", when, id, page.Questions, err, want)
				}
			}
		}
	}
	reads("in progress")
	refused := func(code string, who keys.Identity, change func(*PageRequest)) {
		t.Helper()
		for _, pod := range pods {
			req := request
			req.AttemptID = early.AttemptID
			change(&req)
			_, err := pod.Page(t.Context(), who, req)
			wantCode(t, err, code)
		}
	}
	refused(CodeAttemptNotFound, b.someone(t), func(*PageRequest) {})
	refused(CodeAttemptNotFound, who, func(r *PageRequest) { r.LearnerID = "ann" })
	refused(CodeAttemptNotFound, who, func(r *PageRequest) { r.AttemptID = anns.AttemptID })
	refused(CodeAttemptNotFound, who, func(r *PageRequest) { r.ExamKey = otherExam })
	refused(CodeExamNotFound, who, func(r *PageRequest) { r.ExamKey = "no-exam" })
	refused(CodeAttemptNotFound, who, func(r *PageRequest) { r.PaperID = "another-paper" })
	refused(CodeAttemptNotFound, who, func(r *PageRequest) { r.AttemptID = uuid.NewString() })
	refused(CodeAttemptNotFound, who, func(r *PageRequest) { r.AttemptID = "not-an-id" })

	for _, opened := range []Opened{early, late} {
		_, err := b.Submit(t.Context(), who, submission1(opened, ""))
		check.NoError(t, err)
	}
	reads("submitted")
	b.shelf.withdraw(testExam, testPaper)
	request.AttemptID = early.AttemptID
	page, err := pods[1].Page(t.Context(), who, request)
	if err != nil || !strings.Contains(string(page.Questions[0]), "revision 0") {
		t.Errorf("of a paper that is not served: %s, %v", page.Questions, err)
	}
}
