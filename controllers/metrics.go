package controllers

import (
	"context"
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

// maxUnreadySeries bounds the series of resources that are not Ready; of more only the number is told.
const maxUnreadySeries = 200

// readiness keeps which resources are not Ready, and since when, for alerts that name them. A resource that is Ready has no
// series: ten thousand of them cost nothing. Only the leader knows any; a new one learns of all as it reconciles them.
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
			"Since when a resource is not Ready, and why; a resource that is Ready or suspended has no such series.",
			[]string{"kind", "resource_namespace", "name", "reason"}, nil),
		count: prometheus.NewDesc("examprep_operator_not_ready_resources", "Resources that are not Ready, and not suspended.", []string{"kind"}, nil),
	}
	if registerer != nil {
		registerer.MustRegister(r)
	}
	return r
}

// note takes down what a reconcile has concluded of a resource.
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

// forget drops what was noted of a resource that is gone, or another operator's.
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

// timedPublisher times what a publisher does, by what came of it.
type timedPublisher struct {
	Publisher
	seconds *prometheus.HistogramVec
	now     func() time.Time
}

func newTimedPublisher(inner Publisher, registerer prometheus.Registerer, now func() time.Time) Publisher {
	if registerer == nil {
		return inner
	}
	seconds := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "examprep_operator_publish_seconds", Help: "Time to publish an exam, or to find that it is published, by what came of it.",
		Buckets: prometheus.ExponentialBuckets(0.001, 3, 11),
	}, []string{"result"})
	for _, result := range []string{"published", "unchanged", "refused", "failed"} {
		seconds.WithLabelValues(result)
	}
	registerer.MustRegister(seconds)
	return &timedPublisher{inner, seconds, now}
}

// Publish publishes and takes the time.
func (p *timedPublisher) Publish(
	ctx context.Context, claim catalog.Claim, exam catalog.Exam, options catalog.Options,
) (catalog.Publication, error) {
	began := p.now()
	published, err := p.Publisher.Publish(ctx, claim, exam, options)
	result := "unchanged"
	switch {
	case err != nil && catalogRefusal(err):
		result = "refused"
	case err != nil:
		result = "failed"
	case published.Changed:
		result = "published"
	}
	p.seconds.WithLabelValues(result).Observe(p.now().Sub(began).Seconds())
	return published, err
}

// Standing looks and takes the time, unless Publish is to follow.
func (p *timedPublisher) Standing(ctx context.Context, claim catalog.Claim, examKey string) (catalog.Publication, bool, error) {
	began := p.now()
	published, ok, err := p.Publisher.Standing(ctx, claim, examKey)
	switch took := p.now().Sub(began).Seconds(); {
	case err != nil:
		p.seconds.WithLabelValues("failed").Observe(took)
	case ok:
		p.seconds.WithLabelValues("unchanged").Observe(took)
	}
	return published, ok, err
}

// catalogRefusal says that the declaration is at fault, not the database.
func catalogRefusal(err error) bool {
	return errorIs[*catalog.ClaimConflictError](err) || errorIs[*catalog.SealError](err) ||
		errorIs[*catalog.RevisionNotFoundError](err) || errorIs[*catalog.ValidationError](err)
}
