package controllers

import (
	"maps"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"examprep.dev/api/v1alpha1"
	"examprep.dev/server/catalog"
	"examprep.dev/server/postgres"
	"examprep.dev/server/seals/sealstest"
	"examprep.dev/server/testkit"
	"examprep.dev/server/testkit/golden"
)

// cause is a way to a reason of a condition. It returns the resource that must have it then.
type cause struct {
	condition string
	status    metav1.ConditionStatus
	reason    string
	make      func(*installation) client.Object
}

func causes() []cause {
	const yes, no, unknown = metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionUnknown
	return slices.Concat([]cause{
		{v1alpha1.ConditionReady, yes, v1alpha1.ReasonReady, causeExam(nil)},
		{v1alpha1.ConditionAccepted, yes, v1alpha1.ReasonAccepted, causeExam(nil)},
		{v1alpha1.ConditionResolvedRefs, yes, v1alpha1.ReasonResolved, causeExam(nil)},
		{v1alpha1.ConditionPublished, yes, v1alpha1.ReasonPublished, causeExam(nil)},
		{v1alpha1.ConditionReady, no, v1alpha1.ReasonSuspended, causeExam(func(c *v1alpha1.ExamContent) { c.Spec.Suspend = true })},
		{v1alpha1.ConditionAccepted, no, v1alpha1.ReasonInvalid, causeExam(breakContent)},
		{v1alpha1.ConditionStalled, yes, v1alpha1.ReasonInvalid, causeExam(breakContent)},
		{v1alpha1.ConditionAccepted, no, v1alpha1.ReasonExamKeyConflict, causeRival},
		{v1alpha1.ConditionAccepted, no, v1alpha1.ReasonAdoptionNotAllowed, causeForbiddenAdoption},
		{v1alpha1.ConditionResolvedRefs, no, v1alpha1.ReasonRefNotFound, causeExam(referTo("nowhere", ""))},
		{v1alpha1.ConditionReconciling, yes, v1alpha1.ReasonProgressing, causeExam(referTo("nowhere", ""))},
		{v1alpha1.ConditionResolvedRefs, no, v1alpha1.ReasonRefInvalid, causeUnreadableChunk},
		{v1alpha1.ConditionPublished, yes, v1alpha1.ReasonPinned, causePin(1)},
		{v1alpha1.ConditionPublished, no, v1alpha1.ReasonRevisionNotFound, causePin(99)},
		{v1alpha1.ConditionRepaired, yes, v1alpha1.ReasonDriftRepaired, causeDrift(false)},
		{v1alpha1.ConditionPublished, no, v1alpha1.ReasonDrifted, causeDrift(true)},
		{v1alpha1.ConditionPublished, no, v1alpha1.ReasonSealMismatch, causeExam(nil)}, // in production
		{v1alpha1.ConditionPublished, no, v1alpha1.ReasonSealUntrusted, causeUnsigned},
		{v1alpha1.ConditionReady, no, v1alpha1.ReasonBackendUnavailable, causeOutage},
		{v1alpha1.ConditionAccepted, no, v1alpha1.ReasonNameConflict, causeSecondTier},
	}, []cause{
		{v1alpha1.ConditionDelivering, unknown, v1alpha1.ReasonNoDeliveries, causeHealth("")},
		{v1alpha1.ConditionDelivering, yes, v1alpha1.ReasonDelivering, causeHealth("last_status = 200, last_success_at = now()")},
		{v1alpha1.ConditionDelivering, no, v1alpha1.ReasonFailing, causeHealth("last_status = 500, failing_since = now() - interval '1 hour'")},
		{v1alpha1.ConditionDelivering, no, v1alpha1.ReasonFailingLong, causeHealth("last_status = 500, failing_since = now() - interval '4 days'")},
		{v1alpha1.ConditionReady, no, v1alpha1.ReasonDisabled, causeHealth("status = 'disabled', disabled_reason = 'for a test'")},
	})
}

func TestEveryReasonOfEveryConditionIsCaused(t *testing.T) {
	t.Parallel()
	for _, test := range causes() {
		t.Run(test.condition+" "+string(test.status)+" "+test.reason, func(t *testing.T) {
			t.Parallel()
			environment := postgres.Sandbox
			if test.reason == v1alpha1.ReasonSealMismatch || test.reason == v1alpha1.ReasonSealUntrusted {
				environment = postgres.Production
			}
			in := install(t, environment, 2)
			in.deps.RestrictAdoption = true
			if test.reason == v1alpha1.ReasonSealUntrusted {
				in.trustSomebody()
			}
			in.operate()
			in.until(test.make(in), test.condition, test.status, test.reason)
		})
	}
}

func TestNoConditionOrReasonIsWithoutACause(t *testing.T) {
	t.Parallel()
	caused := map[string]bool{}
	for _, cause := range causes() {
		caused["Condition"+cause.condition], caused["Reason"+cause.reason] = true, true
	}
	for _, elsewhere := range []string{v1alpha1.ReasonAccountNotAllowed, v1alpha1.ReasonSecretRotated} {
		caused["Reason"+elsewhere] = true // by tests of webhook endpoints, which need an operator with settings of its own
	}
	declared := declaredNames(t)
	for name, value := range declared {
		kind := "Condition"
		if strings.HasPrefix(name, "Reason") {
			kind = "Reason"
		}
		if !caused[kind+value] {
			t.Errorf("v1alpha1.%s = %q has no cause in the table of causes", name, value)
		}
	}
	if len(declared) < 30 {
		t.Errorf("only %d names were found: %v", len(declared), slices.Sorted(maps.Keys(declared)))
	}
}

// declaredNames are the constants of api/v1alpha1 that name conditions and reasons, with their values.
func declaredNames(t *testing.T) map[string]string {
	t.Helper()
	files := golden.Parse(t, "../api/v1alpha1")
	names := golden.Constants(files, "Condition")
	maps.Copy(names, golden.Constants(files, "Reason"))
	return names
}

func causeExam(change func(*v1alpha1.ExamContent)) func(*installation) client.Object {
	return func(in *installation) client.Object {
		content := sampleContent("sample", sampleKey(in.t))
		if change != nil {
			change(content)
		}
		in.create(content)
		return content
	}
}

// breakContent makes content invalid in a way that the API server does not see: no country has this code.
func breakContent(c *v1alpha1.ExamContent) { c.Spec.CountryCode = "XX" }

func referTo(configMap, digest string) func(*v1alpha1.ExamContent) {
	return func(c *v1alpha1.ExamContent) {
		c.Spec.Papers = append(c.Spec.Papers, chunkedPaper(c.Spec.ExamKey+"-2024", configMap, digest))
	}
}

func causeUnreadableChunk(in *installation) client.Object {
	in.create(chunkMap("questions", "[\n{\"number\": \"one\"}\n]"))
	return causeExam(referTo("questions", ""))(in)
}

// trustSomebody makes the operator of a production installation trust one who has signed nothing.
func (in *installation) trustSomebody() {
	verifiers := sealstest.Trust(in.t, sealstest.New(in.t).Line("reviewer"))
	in.deps.Publisher = catalog.NewPublisher(in.pool, postgres.Production).Trusting(verifiers)
}

func causeUnsigned(in *installation) client.Object {
	content := sampleContent("sample", sampleKey(in.t))
	seal(in.t, content)
	in.create(content)
	return content
}

func causeRival(in *installation) client.Object {
	winner := sampleContent("winner", sampleKey(in.t))
	in.createReady(winner)
	return causeExam(nil)(in)
}

func causeForbiddenAdoption(in *installation) client.Object {
	owner := sampleContent("owner", sampleKey(in.t))
	owner.Namespace = in.spaces[1]
	in.createReady(owner)
	return causeExam(func(c *v1alpha1.ExamContent) { c.Spec.Adopt = true })(in)
}

func causePin(revision int64) func(*installation) client.Object {
	return func(in *installation) client.Object {
		content := causeExam(nil)(in)
		in.ready(content)
		exam, _ := content.(*v1alpha1.ExamContent)
		edit(in, exam, func(c *v1alpha1.ExamContent) { c.Spec.Revision = &revision })
		return exam
	}
}

func causeDrift(pinned bool) func(*installation) client.Object {
	return func(in *installation) client.Object {
		content := causeExam(nil)(in)
		in.ready(content)
		in.tamper(wrongAnswer)
		if !pinned {
			in.reconcileNow(content, "after the edit")
			return content
		}
		exam, _ := content.(*v1alpha1.ExamContent)
		edit(in, exam, func(c *v1alpha1.ExamContent) { c.Spec.Revision = new(int64(1)) })
		return exam
	}
}

func causeOutage(in *installation) client.Object {
	testkit.CutOff(in.t, in.pool) // for the rest of this test
	return causeExam(nil)(in)
}

func causeSecondTier(in *installation) client.Object {
	first, second := sampleTier("gold", 600), sampleTier("gold", 6)
	in.createReady(first)
	second.Namespace = in.spaces[1]
	in.create(second)
	return second
}

func causeHealth(columns string) func(*installation) client.Object {
	return func(in *installation) client.Object {
		endpoint := sampleEndpoint("https://hooks.example.com/")
		in.createReady(endpoint)
		if columns != "" {
			in.health(endpoint, columns)
			in.reconcileNow(endpoint, "after a worker's note")
		}
		return endpoint
	}
}
