package client_test

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"examprep.dev/api/client"
	"examprep.dev/server/catalog"
	"examprep.dev/server/catalog/catalogtest"
	"examprep.dev/server/gate"
	"examprep.dev/server/keys"
	"examprep.dev/server/testkit/apitest"
	"examprep.dev/server/testkit/check"
)

func service(t *testing.T) (base, key string) {
	t.Helper()
	api := apitest.New(t, apitest.Options{
		Gate:  gate.Config{Anonymous: keys.Tier{Name: "anonymous", Requests: 1000, Period: time.Minute, Burst: 1000}},
		Exams: []catalog.Exam{sampleExam()},
	})
	return "http://" + api.Address + "/v1", api.Key
}

func sampleExam() catalog.Exam {
	exam := catalogtest.Exam("xx-sample", "Sample", "A", "B")
	exam.Country, exam.CountryCode, exam.Scoring = "Spain", "ES", json.RawMessage(`{"pass_mark": 1}`)
	exam.Resources.OfficialSites = []catalog.Link{{Title: "Board", URL: "https://example.org/"}}
	exam.StudyPath = catalog.StudyPath{Weeks: 2, HoursTotal: 7.5, Steps: []json.RawMessage{[]byte(`{"week":1}`)}}
	for i := range exam.Papers[0].Questions {
		exam.Papers[0].Questions[i].Explanation = "So it is."
	}
	return exam
}

func connect(t *testing.T, base, key string) *client.Client {
	t.Helper()
	c, err := client.New(base, key, client.WithRetries(0))
	check.NoError(t, err)
	return c
}

func TestTheNineOperationsOnTheRealService(t *testing.T) {
	t.Parallel()
	base, key := service(t)
	c, ctx := connect(t, base, key), t.Context()
	const exam, paper, learner = "xx-sample", "xx-sample-2023", "learner"
	check := func(what string, err error, holds bool) {
		t.Helper()
		if err != nil || !holds {
			t.Errorf("%s: holds %v, error %v", what, holds, err)
		}
	}
	exams, err := c.ListExams(ctx, "Spain", "ES")
	check("list", err, len(exams) == 1 && exams[0].ExamKey == exam && exams[0].DurationMin == 90)
	overview, err := c.ExamOverview(ctx, exam)
	check("overview", err, overview.Name == "Sample" && len(overview.Scoring) > 0)
	resources, err := c.ExamResources(ctx, exam)
	check("resources", err, len(resources.OfficialSites) == 1 && resources.OfficialSites[0].URL == "https://example.org/")
	path, err := c.ExamStudyPath(ctx, exam)
	check("study path", err, path.StudyWeeks == 2 && len(path.StudyPath) == 1)
	papers, err := c.MockPapers(ctx, exam)
	check("papers", err, papers.TotalPapers == 1 && len(papers.Years) == 1 && papers.Years[0].Papers[0].PaperID == paper)
	opened, err := c.OpenMockPaper(ctx, exam, client.QuestionRange{PaperID: paper, Limit: 1, LearnerID: learner})
	check("open", err, opened.QuestionCount == 2 && len(opened.Questions) == 1 && opened.State == "in_progress" && opened.ExpiresAt != nil)
	page, err := c.MockQuestionPage(ctx, exam, client.QuestionRange{PaperID: paper, Offset: 1, LearnerID: learner})
	check("questions", err, page.Total == 2 && len(page.Questions) == 1 && page.Questions[0].AnswerID == "1:2")
	result, err := c.SubmitMockAttempt(ctx, exam, client.Submission{
		AttemptID: opened.AttemptID, Answers: map[string]string{"1:1": "A", "1:2": "A"}, LearnerID: learner,
	})
	check("submit", err, result.Success && result.Feedback.Score == 50 && result.Feedback.CorrectCount == 1 &&
		len(result.Feedback.Questions) == 2 && len(result.Feedback.Raw) > 0)
	history, err := c.MockAttempts(ctx, exam, client.HistoryRange{Limit: 5, LearnerID: learner})
	check("history", err, history.Total == 1 && *history.Attempts[0].Score == 50)
}

func TestWhatTheServiceRefusesIsTyped(t *testing.T) {
	t.Parallel()
	base, key := service(t)
	for name, c := range map[string]struct {
		key, exam string
		status    int
		code      string
	}{
		"no such exam":         {key, "none", 404, "exam_not_found"},
		"a name to be escaped": {key, "a/b?c", 404, ""},
		"no such key":          {"service_x", "xx-sample", 401, "unauthorized"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := connect(t, base, c.key).ExamOverview(t.Context(), c.exam)
			refused, ok := errors.AsType[*client.Error](err)
			if !ok || refused.Status != c.status || (c.code != "" && refused.Code != c.code) || refused.RequestID == "" {
				t.Errorf("got %v, want %d %s", err, c.status, c.code)
			}
		})
	}
}
