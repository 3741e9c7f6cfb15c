package content

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"examprep.dev/server/catalog"
	"examprep.dev/server/postgres"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/check"
)

func TestPublishAndDiffOnARealDatabase(t *testing.T) {
	t.Parallel()
	publisher := catalog.NewPublisher(testkit.Database(t), postgres.Sandbox)
	bundle := load(t, writeExam(t, "exam.yaml", goodExam))
	first, err := Publish(t.Context(), bundle, publisher, "here")
	check.NoError(t, err)
	again, err := Publish(t.Context(), bundle, publisher, "here")
	check.NoError(t, err)
	if have := first.Exams[0]; have.Revision != 1 || !have.Changed || have.Papers != 1 || len(have.Unsealed) != 1 {
		t.Errorf("first: %+v", have)
	}
	if have := again.Exams[0]; have.Revision != 1 || have.Changed {
		t.Errorf("again: %+v", have)
	}

	changed := load(t, writeExam(t, "exam.yaml", strings.Replace(goodExam, "{choice: A}", "{choice: B}", 1)))
	diff, err := Diff(t.Context(), changed, publisher)
	check.NoError(t, err)
	var text bytes.Buffer
	check.NoError(t, diff.WriteText(&text))
	if want := "es-mir: 1 changes\n  paper es-mir-2013 question 1:1 answer"; !strings.HasPrefix(text.String(), want) {
		t.Errorf("have %s\nwant %s…", text.String(), want)
	}
	_, err = Publish(t.Context(), changed, publisher, "here")
	check.NoError(t, err)

	pinned := load(t, writeExam(t, "exam.yaml", strings.Replace(goodExam, "  countryCode: ES\n", "  revision: 1\n", 1)))
	report, err := Publish(t.Context(), pinned, publisher, "here")
	if err != nil || report.Exams[0].Revision != 3 || !report.Exams[0].Changed {
		t.Errorf("roll-back: %+v, %v", report, err)
	}

	var conflict *catalog.ClaimConflictError
	_, err = Publish(t.Context(), bundle, publisher, "elsewhere")
	if !errors.As(err, &conflict) || conflict.Owner != (catalog.Claim{Cluster: "here", Namespace: "default", Name: "es-mir"}) {
		t.Errorf("another cluster: %v", err)
	}
}

func TestPublishLeavesSuspendedExamsAlone(t *testing.T) {
	t.Parallel()
	bundle := load(t, writeExam(t, "exam.yaml", strings.Replace(goodExam, "  countryCode: ES\n", "  suspend: true\n", 1)))
	report, err := Publish(t.Context(), bundle, nil, "here")
	if err != nil || !report.Exams[0].Suspended {
		t.Errorf("%+v, %v", report, err)
	}
}

func TestPublishAndDiffRefuseWhatLintRefuses(t *testing.T) {
	t.Parallel()
	bundle := load(t, writeExam(t, "exam.yaml", strings.Replace(goodExam, "  name: MIR", "  nam: MIR", 1)))
	var invalid *ProblemsError
	if _, err := Publish(t.Context(), bundle, nil, "here"); !errors.As(err, &invalid) {
		t.Errorf("publish: %v", err)
	}
	if _, err := Diff(t.Context(), bundle, nil); !errors.As(err, &invalid) {
		t.Errorf("diff: %v", err)
	}
}
