package controllers

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	"examprep.dev/api/v1alpha1"
)

// Bounds on texts, in bytes. An event's note may hold 1 KiB; a condition is read in a terminal.
const (
	maxConditionMessage = 4096
	maxEventNote        = 1000
)

// next reports whether a reconcile continues after a step.
type next bool

const (
	goOn next = true
	stop next = false
)

// step is one named part of a reconcile over the scope S.
type step[S any] struct {
	name string
	run  func(ctx context.Context, s S) (next, error)
}

// runSteps runs steps in order until one fails or returns stop.
func runSteps[S any](ctx context.Context, s S, steps []step[S]) error {
	for _, step := range steps {
		proceed, err := step.run(ctx, s)
		if err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
		if proceed == stop {
			return nil
		}
	}
	return nil
}

// scope is what every reconcile keeps, whatever the kind; the kinds' own scopes embed it.
type scope struct {
	// object is the resource as it was read from the API server at the start; a finalizer's patch updates it. The steps
	// change its status.
	object client.Object
	status commonStatus
	// owned are the kind's condition types besides Ready, Reconciling and Stalled, in the order in which they are decided.
	owned []string
	// occasional are condition types that exist only if a step decided them: a successful reconcile without that decision
	// removes them, and a failed one leaves them. Each new or changed one causes an event.
	occasional []string
	// notes replace, in events, the messages of condition types, which can show answers.
	notes map[string]string
	// before are the conditions as they were read.
	before []metav1.Condition
	// decided are the owned conditions that a step of this reconcile has set.
	decided map[string]metav1.Condition
	// ready is the message of Ready when no step fails; the last step sets it.
	ready string
	// standing is added to the messages of a resource that is not Ready. It names what is still in effect.
	standing string
	// interval is how long after a good reconcile the next one is due.
	interval time.Duration
	// action is the reconcile's action in events. Kubernetes merges events of one reason and action within some minutes into
	// one event with a count, so events that must stay separate need different actions.
	action string
	// alarms are reasons of owned conditions that cause an event when they appear, whether or not Ready changes.
	alarms []string
	// suspended is set by the step that finds spec.suspend and stops.
	suspended bool
	// gone is set when the finalizer was removed, so there is no status to write.
	gone bool
	now  func() time.Time
}

// commonStatus points at what the statuses of all kinds have in common.
type commonStatus struct {
	conditions         *[]metav1.Condition
	observedGeneration *int64
	lastHandled        *string
	shard              *string
}

func newScope(object client.Object, status commonStatus, now func() time.Time, action string, owned ...string) scope {
	return scope{
		object:  object,
		status:  status,
		owned:   owned,
		action:  action,
		before:  append([]metav1.Condition(nil), *status.conditions...),
		decided: make(map[string]metav1.Condition, len(owned)),
		notes:   make(map[string]string),
		now:     now,
	}
}

// pass decides that a condition is True.
func (s *scope) pass(condition, reason, message string) {
	s.decide(condition, metav1.ConditionTrue, reason, message)
}

func (s *scope) decide(condition string, status metav1.ConditionStatus, reason, message string) {
	s.decided[condition] = metav1.Condition{Type: condition, Status: status, Reason: reason, Message: message}
}

// conclude is the one place where the outcome of the steps becomes conditions and a time to come back. A blockedError
// goes into the conditions for the resource's owner. Any other failure is returned, so that the queue retries with backoff.
func (s *scope) conclude(failure error) (ctrl.Result, error) {
	if s.gone {
		return ctrl.Result{}, failure
	}
	blocked := asBlocked(failure)
	switch {
	case failure == nil && s.suspended:
		s.finish(metav1.ConditionFalse, v1alpha1.ReasonSuspended, "suspended: changes have no effect"+s.standing, "")
		return ctrl.Result{}, nil
	case failure == nil:
		*s.status.lastHandled = s.object.GetAnnotations()[v1alpha1.ReconcileRequestAnnotation]
		s.finish(metav1.ConditionTrue, v1alpha1.ReasonReady, s.ready, "")
		return s.again(s.interval), nil
	case blocked != nil:
		*s.status.lastHandled = s.object.GetAnnotations()[v1alpha1.ReconcileRequestAnnotation]
		message := blocked.Err.Error() + s.standing
		s.decide(blocked.Condition, metav1.ConditionFalse, blocked.Reason, message)
		s.notes[v1alpha1.ConditionReady] = eventNote(blocked) + s.standing
		also := v1alpha1.ConditionReconciling
		if blocked.Stalled {
			also = v1alpha1.ConditionStalled
		}
		s.finish(metav1.ConditionFalse, blocked.Reason, message, also)
		if blocked.RetryAfter > 0 {
			return s.again(blocked.RetryAfter), nil
		}
		return s.again(s.interval), nil
	default:
		s.finish(metav1.ConditionFalse, v1alpha1.ReasonBackendUnavailable,
			"reconcile failed in the operator or a backend; retrying (see the operator's log)"+s.standing, v1alpha1.ConditionReconciling)
		return ctrl.Result{}, failure
	}
}

// again returns the request for a reconcile after d or slightly earlier, at low priority.
func (s *scope) again(d time.Duration) ctrl.Result {
	low := handler.LowPriority
	return ctrl.Result{RequeueAfter: wait.Jitter(d-d/10, 0.1), Priority: &low}
}

// finish writes the conditions into the status. also is Reconciling, Stalled or empty.
func (s *scope) finish(ready metav1.ConditionStatus, reason, message, also string) {
	*s.status.observedGeneration = s.object.GetGeneration()
	for _, condition := range s.owned {
		decided, ok := s.decided[condition]
		if old := meta.FindStatusCondition(s.before, condition); !ok && old != nil && slices.Contains(s.alarms, old.Reason) {
			continue // keep it until it is checked again, or each failed reconcile would cause the alarm again
		}
		if !ok {
			decided = metav1.Condition{
				Type: condition, Status: metav1.ConditionUnknown, Reason: reason, Message: "not checked: see Ready",
			}
		}
		s.put(decided)
	}
	s.putOccasional(ready == metav1.ConditionTrue)
	s.put(metav1.Condition{Type: v1alpha1.ConditionReady, Status: ready, Reason: reason, Message: message})
	for _, condition := range []string{v1alpha1.ConditionReconciling, v1alpha1.ConditionStalled} {
		if condition == also {
			why := reason
			if condition == v1alpha1.ConditionReconciling {
				why = v1alpha1.ReasonProgressing
			}
			s.put(metav1.Condition{Type: condition, Status: metav1.ConditionTrue, Reason: why, Message: message})
		} else {
			meta.RemoveStatusCondition(s.status.conditions, condition)
		}
	}
}

func (s *scope) putOccasional(all bool) {
	for _, condition := range s.occasional {
		decided, ok := s.decided[condition]
		old := meta.FindStatusCondition(s.before, condition)
		switch {
		case ok:
			s.put(decided)
		case all:
			meta.RemoveStatusCondition(s.status.conditions, condition)
		case old != nil:
			s.put(*old)
		}
	}
}

func (s *scope) put(condition metav1.Condition) {
	condition.ObservedGeneration = s.object.GetGeneration()
	condition.Message = shorten(condition.Message, maxConditionMessage)
	if old := meta.FindStatusCondition(*s.status.conditions, condition.Type); old == nil || old.Status != condition.Status {
		condition.LastTransitionTime = metav1.NewTime(s.now().Truncate(time.Second))
	}
	meta.SetStatusCondition(s.status.conditions, condition)
}

// tell records an event if Ready changed in status, reason or message, or if an alarm appeared. An unchanged resource causes
// no events.
func (s *scope) tell(recorder events.EventRecorder) {
	s.alarm(recorder)
	s.tellOccasional(recorder)
	old := meta.FindStatusCondition(s.before, v1alpha1.ConditionReady)
	now := meta.FindStatusCondition(*s.status.conditions, v1alpha1.ConditionReady)
	if now == nil || old != nil && old.Status == now.Status && old.Reason == now.Reason && old.Message == now.Message {
		return
	}
	kind := corev1.EventTypeNormal
	if now.Status != metav1.ConditionTrue && now.Reason != v1alpha1.ReasonSuspended {
		kind = corev1.EventTypeWarning
	}
	s.record(recorder, kind, now)
}

func (s *scope) record(recorder events.EventRecorder, kind string, condition *metav1.Condition) {
	note := cmp.Or(s.notes[condition.Type], condition.Message)
	recorder.Eventf(s.object, nil, kind, condition.Reason, s.action, "%s", shorten(note, maxEventNote))
}

func (s *scope) tellOccasional(recorder events.EventRecorder) {
	for _, condition := range s.occasional {
		old := meta.FindStatusCondition(s.before, condition)
		now := meta.FindStatusCondition(*s.status.conditions, condition)
		if now != nil && (old == nil || old.Message != now.Message) {
			s.record(recorder, corev1.EventTypeWarning, now)
		}
	}
}

// alarm records an event for each owned condition whose reason changed to one of the alarms.
func (s *scope) alarm(recorder events.EventRecorder) {
	for _, condition := range s.owned {
		old := meta.FindStatusCondition(s.before, condition)
		now := meta.FindStatusCondition(*s.status.conditions, condition)
		if now == nil || !slices.Contains(s.alarms, now.Reason) || old != nil && old.Reason == now.Reason {
			continue
		}
		s.record(recorder, corev1.EventTypeWarning, now)
	}
}

// shorten cuts text to at most limit bytes, at a character.
func shorten(text string, limit int) string {
	const ellipsis = "…"
	if len(text) <= limit {
		return text
	}
	cut := limit - len(ellipsis)
	for cut > 0 && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + ellipsis
}
