package controllers

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"examprep.dev/api/v1alpha1"
	"examprep.dev/server/catalog"
)

// maxUnreadySeries limits the series of resources that are not Ready; further ones are only counted.
const maxUnreadySeries = 200

// readiness holds the resources that are not Ready, with the time since when, for alerts that name them. Ready resources have
// no series, so ten thousand of them cost nothing. Only the leader has series; a new leader adds each as it reconciles them.
type readiness struct {
	since, count *prometheus.Desc

	mu      sync.Mutex
	unready map[resourceName]unreadyState
}

type resourceName struct{ kind, namespace, name string }

type unreadyState struct {
	reason string
	since  time.Time
}

func newReadiness(registerer prometheus.Registerer) *readiness {
	r := &readiness{
		unready: map[resourceName]unreadyState{},
		since: prometheus.NewDesc("examprep_operator_not_ready_since_timestamp_seconds",
			"Unix time since which a resource has not been Ready, by reason; Ready and suspended resources have no series.",
			[]string{"kind", "resource_namespace", "name", "reason"}, nil),
		count: prometheus.NewDesc("examprep_operator_not_ready_resources", "Resources that are neither Ready nor suspended, by kind.", []string{"kind"}, nil),
	}
	if registerer != nil {
		registerer.MustRegister(r)
	}
	return r
}

// note stores whether a resource is Ready after a reconcile.
func (r *readiness) note(s *scope) {
	name := resourceName{kindOf(s.object), s.object.GetNamespace(), s.object.GetName()}
	ready := meta.FindStatusCondition(*s.status.conditions, v1alpha1.ConditionReady)
	r.mu.Lock()
	defer r.mu.Unlock()
	if s.gone || ready == nil || ready.Status == metav1.ConditionTrue || ready.Reason == v1alpha1.ReasonSuspended {
		delete(r.unready, name)
		return
	}
	r.unready[name] = unreadyState{reason: ready.Reason, since: ready.LastTransitionTime.Time}
}

// forget removes a resource that is deleted or belongs to another operator.
func (r *readiness) forget(name resourceName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.unready, name)
}

func kindOf(object any) string {
	switch object.(type) {
	case *v1alpha1.ExamContent:
		return "ExamContent"
	case *v1alpha1.WebhookEndpoint:
		return "WebhookEndpoint"
	default:
		return "RateTier"
	}
}

// Describe implements prometheus.Collector.
func (r *readiness) Describe(to chan<- *prometheus.Desc) { to <- r.since; to <- r.count }

// Collect implements prometheus.Collector.
func (r *readiness) Collect(to chan<- prometheus.Metric) {
	counts := map[string]int{"ExamContent": 0, "WebhookEndpoint": 0, "RateTier": 0}
	r.mu.Lock()
	unready := maps.Clone(r.unready)
	r.mu.Unlock()
	names := slices.Collect(maps.Keys(unready))
	slices.SortFunc(names, func(a, b resourceName) int { return unready[a].since.Compare(unready[b].since) })
	for _, name := range names {
		counts[name.kind]++
	}
	for kind, count := range counts {
		to <- prometheus.MustNewConstMetric(r.count, prometheus.GaugeValue, float64(count), kind)
	}
	for _, name := range names[:min(len(names), maxUnreadySeries)] {
		state := unready[name]
		to <- prometheus.MustNewConstMetric(r.since, prometheus.GaugeValue, float64(state.since.Unix()),
			name.kind, name.namespace, name.name, state.reason)
	}
}

// publishTimer observes how long reconciles take to publish. Nil observes nothing.
type publishTimer struct{ seconds *prometheus.HistogramVec }

func newPublishTimer(registerer prometheus.Registerer) *publishTimer {
	if registerer == nil {
		return nil
	}
	seconds := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "examprep_operator_publish_seconds", Help: "Seconds to publish an exam or to find it already published, by result.",
		Buckets: prometheus.ExponentialBuckets(0.001, 3, 11),
	}, []string{"result"})
	for _, result := range []string{"published", "unchanged", "refused", "failed"} {
		seconds.WithLabelValues(result)
	}
	registerer.MustRegister(seconds)
	return &publishTimer{seconds}
}

// observe counts one reconcile, however many calls of the catalogue it took.
func (p *publishTimer) observe(took time.Duration, changed bool, err error) {
	if p == nil {
		return
	}
	result := "unchanged"
	switch {
	case err != nil && (asBlocked(err) != nil || catalogRefusal(err)):
		result = "refused"
	case err != nil:
		result = "failed"
	case changed:
		result = "published"
	}
	p.seconds.WithLabelValues(result).Observe(took.Seconds())
}

// catalogRefusal reports whether the declaration is at fault, not the database.
func catalogRefusal(err error) bool {
	return errorIs[*catalog.ClaimConflictError](err) || errorIs[*catalog.SealError](err) || errorIs[*catalog.DamagedError](err) ||
		errorIs[*catalog.RevisionNotFoundError](err)
}
