package controllers

import (
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"

	"examprep.dev/api/v1alpha1"
	"examprep.dev/server/content/assemble"
	"examprep.dev/server/testkit/check"
)

func tierAt(now time.Time) (*scope, *v1alpha1.RateTier) {
	tier := &v1alpha1.RateTier{}
	tier.Name, tier.Generation = "gold", 3
	tier.Status.ObservedGeneration = 2
	tier.Status.Conditions = []metav1.Condition{{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonReady, Message: "as it was",
		ObservedGeneration: 2, LastTransitionTime: metav1.NewTime(now.Add(-time.Hour)),
	}}
	s := newScope(tier, commonStatus{
		conditions:         &tier.Status.Conditions,
		observedGeneration: &tier.Status.ObservedGeneration,
		lastHandled:        &tier.Status.LastHandledReconcileAt,
		shard:              &tier.Status.Shard,
	}, func() time.Time { return now }, "ApplyTier", v1alpha1.ConditionAccepted)
	s.interval = tierResync
	return &s, tier
}

type outcome struct {
	name    string
	failure error
	prepare func(*scope)
	// want maps the conditions to status and reason; the rest must be absent.
	want   map[string]string
	again  time.Duration
	passes bool // the error is returned
}

func TestOutcomesBecomeConditions(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	broken := errors.New("it is broken")
	trouble := errors.New("password is hunter2")
	for _, test := range []outcome{
		{
			name: "all is well",
			prepare: func(s *scope) {
				s.pass(v1alpha1.ConditionAccepted, v1alpha1.ReasonAccepted, "valid")
				s.ready = "in effect"
			},
			want:  map[string]string{"Ready": "True Ready", "Accepted": "True Accepted"},
			again: tierResync,
		},
		{
			name:    "stalled",
			failure: stalled(v1alpha1.ConditionAccepted, v1alpha1.ReasonInvalid, broken),
			want:    map[string]string{"Ready": "False Invalid", "Accepted": "False Invalid", "Stalled": "True Invalid"},
			again:   tierResync,
		},
		{
			name:    "waiting",
			failure: waiting(v1alpha1.ConditionAccepted, v1alpha1.ReasonRefNotFound, broken),
			want:    map[string]string{"Ready": "False RefNotFound", "Accepted": "False RefNotFound", "Reconciling": "True Progressing"},
			again:   waitingRetry,
		},
		{
			name:    "suspended",
			prepare: func(s *scope) { s.suspended = true },
			want:    map[string]string{"Ready": "False Suspended", "Accepted": "Unknown Suspended"},
		},
		{
			name:    "the operator's own trouble",
			failure: trouble,
			want:    map[string]string{"Ready": "False BackendUnavailable", "Accepted": "Unknown BackendUnavailable", "Reconciling": "True Progressing"},
			passes:  true,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.check(t, now)
		})
	}
}

func (test outcome) check(t *testing.T, now time.Time) {
	t.Helper()
	s, tier := tierAt(now)
	if test.prepare != nil {
		test.prepare(s)
	}
	result, err := s.conclude(test.failure)
	if (err != nil) != test.passes {
		t.Errorf("error: %v", err)
	}
	if result.RequeueAfter > test.again || result.RequeueAfter < test.again-test.again/10 {
		t.Errorf("again after %s, want %s or a little less", result.RequeueAfter, test.again)
	}
	checkConditions(t, test.name, tier.Generation, tier.Status.ObservedGeneration, tier.Status.Conditions)
	for _, condition := range tier.Status.Conditions {
		check.Equal(t, string(condition.Status)+" "+condition.Reason, test.want[condition.Type], "%s", condition.Type)
		if strings.Contains(condition.Message, "hunter2") {
			t.Errorf("%s tells tenants the operator's secrets: %s", condition.Type, condition.Message)
		}
	}
	check.Equal(t, len(tier.Status.Conditions), len(test.want), "number of conditions %+v", tier.Status.Conditions)
	ready := meta.FindStatusCondition(tier.Status.Conditions, v1alpha1.ConditionReady)
	if changed := ready.Status != metav1.ConditionTrue; changed != ready.LastTransitionTime.Time.Equal(now) {
		t.Errorf("Ready is %s since %s", ready.Status, ready.LastTransitionTime)
	}
}

func TestEventsAreToldOnTransitionsOnly(t *testing.T) {
	t.Parallel()
	recorder := events.NewFakeRecorder(10)
	s, tier := tierAt(time.Now())
	_, err := s.conclude(stalled(v1alpha1.ConditionAccepted, v1alpha1.ReasonInvalid, errors.New("wrong")))
	check.NoError(t, err)
	s.tell(recorder)
	again := newScope(tier, s.status, s.now, "ApplyTier", v1alpha1.ConditionAccepted)
	_, err = again.conclude(stalled(v1alpha1.ConditionAccepted, v1alpha1.ReasonInvalid, errors.New("wrong")))
	check.NoError(t, err)
	again.tell(recorder)
	close(recorder.Events)
	var told []string
	for event := range recorder.Events {
		told = append(told, event)
	}
	if len(told) != 1 || told[0] != "Warning Invalid wrong" {
		t.Errorf("events: %q", told)
	}
}

func TestAnAlarmIsToldOnceWhateverFailsMeanwhile(t *testing.T) {
	t.Parallel()
	recorder := events.NewFakeRecorder(10)
	_, tier := tierAt(time.Now())
	reconcile := func(failure error) {
		s := newScope(tier, commonStatus{
			conditions:         &tier.Status.Conditions,
			observedGeneration: &tier.Status.ObservedGeneration,
			lastHandled:        &tier.Status.LastHandledReconcileAt,
			shard:              &tier.Status.Shard,
		}, time.Now, "Apply", v1alpha1.ConditionDelivering)
		s.alarms, s.ready = []string{v1alpha1.ReasonFailingLong}, "as it was"
		if failure == nil {
			s.decide(v1alpha1.ConditionDelivering, metav1.ConditionFalse, v1alpha1.ReasonFailingLong, "soon disabled")
		}
		_, _ = s.conclude(failure)
		s.alarm(recorder)
	}
	reconcile(nil)
	reconcile(errors.New("the database is away"))
	if stands := meta.FindStatusCondition(tier.Status.Conditions, v1alpha1.ConditionDelivering); stands.Reason != v1alpha1.ReasonFailingLong {
		t.Errorf("meanwhile: %+v, want the alarm to stand", stands)
	}
	reconcile(nil)
	check.Equal(t, len(recorder.Events), 1, "events")
}

func TestReferencesThatMayComeRightAreWaitedFor(t *testing.T) {
	t.Parallel()
	missing := &assemble.ChunkMissingError{Field: "spec.papers[0].questionsFrom[0]", Namespace: "n", Name: "c"}
	digest := &assemble.RefError{Field: "spec.papers[0].questionsFrom[1]", Err: &assemble.ChunkDigestError{}}
	broken := &assemble.RefError{Field: "spec.papers[0].questionsFrom[2]", Err: &assemble.ChunkError{Detail: "broken"}}
	unknown := errors.New("the API server is away")
	for _, test := range []struct {
		name    string
		err     error
		stalled bool
		reason  string
	}{
		{"missing", missing, false, v1alpha1.ReasonRefNotFound},
		{"another digest", digest, false, v1alpha1.ReasonRefInvalid},
		{"missing and another digest", assemble.Errors{missing, digest}, false, v1alpha1.ReasonRefInvalid},
		{"broken", broken, true, v1alpha1.ReasonRefInvalid},
		{"missing and broken", assemble.Errors{missing, broken}, true, v1alpha1.ReasonRefInvalid},
		{"more missing", assemble.Errors{missing, &assemble.OmittedError{Missing: 1}}, false, v1alpha1.ReasonRefNotFound},
		{"missing and more with another digest", assemble.Errors{missing, &assemble.OmittedError{Digests: 1}}, false, v1alpha1.ReasonRefInvalid},
		{"missing and more broken", assemble.Errors{missing, &assemble.OmittedError{Digests: 1, Invalid: 1}}, true, v1alpha1.ReasonRefInvalid},
		{"not asked", unknown, false, ""},
	} {
		blocked := asBlocked(explainReference(test.err))
		if test.reason == "" {
			if blocked != nil {
				t.Errorf("%s: told to the owner as %+v", test.name, blocked)
			}
			continue
		}
		if blocked == nil || blocked.Stalled != test.stalled || blocked.Reason != test.reason {
			t.Errorf("%s: %+v", test.name, blocked)
		}
	}
}

func TestShortenCutsAtACharacter(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("ñ", 100)
	for limit := 4; limit <= 201; limit++ {
		got := shorten(text, limit)
		if len(got) > limit || !utf8.ValidString(got) {
			t.Errorf("shorten to %d: %d bytes, %q", limit, len(got), got)
		}
	}
	check.Equal(t, shorten("short", 100), "short", "a short text")
}
