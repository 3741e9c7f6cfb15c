package controllers

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"examprep.dev/api/v1alpha1"
)

const (
	// defaultLeaseName is the lease that operators of one installation elect their leader by.
	defaultLeaseName = "examprep-operator.examprep.dev"
	// reconcileTimeout bounds one reconcile; publishing the largest exam that the API server takes needs seconds.
	reconcileTimeout = 3 * time.Minute
	// cacheSyncTimeout bounds the first list of the resources: tens of thousands on a busy API server.
	cacheSyncTimeout = 5 * time.Minute
	// defaultConcurrency is how many resources of a kind are worked on at once. Most of a reconcile is waiting for the
	// API server and for Postgres.
	defaultConcurrency = 8
)

// Options shape the manager that the reconcilers run in.
type Options struct {
	// WatchNamespaces limits the operator to these namespaces; empty: all. With a limit it needs no cluster-wide role.
	WatchNamespaces []string
	// LeaderElection makes replicas agree on one that works, by a lease. Without it there must be one replica only.
	LeaderElection bool
	// LeaderElectionNamespace is where the lease lives; empty: the namespace of the operator's own pod.
	LeaderElectionNamespace string
	// LeaderElectionID is the lease's name; empty: examprep-operator.examprep.dev, and examprep-operator-<name>.examprep.dev
	// for a shard that has a name.
	LeaderElectionID string
	// LeaseDuration is how long a standby waits after the leader's last renewal before it takes the lease; 0: 15 s. A leader that
	// stops in order gives the lease back at once.
	LeaseDuration time.Duration
	// LeaseRenew is how long the leader tries to renew the lease before it ends its manager; 0: 10 s. It must be less than
	// LeaseDuration.
	LeaseRenew time.Duration
	// LeaseRetry is the pause between two tries to take or to renew the lease; 0: 2 s.
	LeaseRetry time.Duration
	// Shard limits the operator to a part of the resources; the zero value is all of them. Deps has the same.
	Shard Shard
	// MetricsAddress is where controller-runtime serves its metrics; empty: nowhere, for a process that serves the
	// registry sigs.k8s.io/controller-runtime/pkg/metrics.Registry itself.
	MetricsAddress string
	// HealthAddress is where controller-runtime serves /healthz and /readyz; empty: nowhere.
	HealthAddress string
	// ShutdownGrace is how long running reconciles get to finish; 0: 30 s.
	ShutdownGrace time.Duration
	// Concurrency is how many resources of a kind are worked on at once; 0: 8.
	Concurrency int
	// AllowSameNames permits several managers in one process, as tests have them.
	AllowSameNames bool
	// Logger takes the logs of the manager and the reconcilers; nil: none are written.
	Logger *slog.Logger
}

// NewScheme returns the kinds that the operator reads and writes.
func NewScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return nil, fmt.Errorf("build scheme: %w", err)
	}
	return scheme, nil
}

// NewManager returns a manager without reconcilers; Setup adds them.
func NewManager(restConfig *rest.Config, options Options) (ctrl.Manager, error) {
	scheme, err := NewScheme()
	if err != nil {
		return nil, err
	}
	restConfig = rest.CopyConfig(restConfig)
	if restConfig.QPS == 0 {
		restConfig.QPS = -1 // the API server's own priority and fairness is the limit
	}
	// The operator runs near the API server, and gzip was a fifth of the API server's cost of a list.
	restConfig.DisableCompression = true
	if restConfig.UserAgent == "" {
		restConfig.UserAgent = fieldOwner
	}
	manager, err := ctrl.NewManager(restConfig, options.manager(scheme))
	if err != nil {
		return nil, fmt.Errorf("make manager: %w", err)
	}
	return manager, nil
}

func (o Options) manager(scheme *runtime.Scheme) ctrl.Options {
	logger := logr.Discard()
	if o.Logger != nil {
		logger = logr.FromSlogHandler(o.Logger.Handler())
	}
	grace := cmp.Or(o.ShutdownGrace, 30*time.Second)
	duration, renew, retry := cmp.Or(o.LeaseDuration, 15*time.Second), cmp.Or(o.LeaseRenew, 10*time.Second), cmp.Or(o.LeaseRetry, 2*time.Second)
	warm := true
	return ctrl.Options{
		Scheme:                        scheme,
		Logger:                        logger,
		Cache:                         o.cache(),
		Metrics:                       metricsserver.Options{BindAddress: cmp.Or(o.MetricsAddress, "0")},
		HealthProbeBindAddress:        cmp.Or(o.HealthAddress, "0"),
		LeaderElection:                o.LeaderElection,
		LeaderElectionID:              cmp.Or(o.LeaderElectionID, o.Shard.leaseName()),
		LeaderElectionNamespace:       o.LeaderElectionNamespace,
		LeaderElectionReleaseOnCancel: true, // the process ends when the manager does
		LeaseDuration:                 &duration,
		RenewDeadline:                 &renew,
		RetryPeriod:                   &retry,
		GracefulShutdownTimeout:       &grace,
		Controller: config.Controller{
			MaxConcurrentReconciles: cmp.Or(o.Concurrency, defaultConcurrency),
			ReconciliationTimeout:   reconcileTimeout,
			CacheSyncTimeout:        cacheSyncTimeout,
			SkipNameValidation:      &o.AllowSameNames,
			// A standby has its cache filled already when it becomes the leader.
			EnableWarmup: &warm,
		},
	}
}

// cache keeps skeletons: of our kinds what indexes need, of ConfigMaps which there are, and in which version.
func (o Options) cache() cache.Options {
	options := cache.Options{
		DefaultTransform: cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{
			&v1alpha1.ExamContent{}:     {Transform: examSkeleton, Label: o.Shard.selector()},
			&v1alpha1.WebhookEndpoint{}: {Label: o.Shard.selector()},
			&v1alpha1.RateTier{}:        {Label: o.Shard.selector()},
			&corev1.ConfigMap{}:         {Transform: versionOnly, Label: labels.SelectorFromSet(labels.Set{v1alpha1.ContentLabel: "true"})},
		},
	}
	if len(o.WatchNamespaces) > 0 {
		options.DefaultNamespaces = make(map[string]cache.Config, len(o.WatchNamespaces))
		for _, namespace := range o.WatchNamespaces {
			options.DefaultNamespaces[namespace] = cache.Config{}
		}
	}
	return options
}

// examSkeleton is the transform that keeps questions, and whatever else no index needs, out of the cache.
func examSkeleton(object any) (any, error) {
	content, ok := object.(*v1alpha1.ExamContent)
	if !ok {
		return object, nil // a tombstone: the cache unwraps it
	}
	skeleton := &v1alpha1.ExamContent{TypeMeta: content.TypeMeta, ObjectMeta: content.ObjectMeta}
	skeleton.ManagedFields = nil
	delete(skeleton.Annotations, corev1.LastAppliedConfigAnnotation) // as large as the whole resource
	skeleton.Status.ObservedGeneration = content.Status.ObservedGeneration
	skeleton.Status.LastHandledReconcileAt = content.Status.LastHandledReconcileAt
	skeleton.Spec.ExamKey, skeleton.Spec.Suspend = content.Spec.ExamKey, content.Spec.Suspend
	if names := configMapsOf(content); len(names) > 0 { // a paper for all: an empty one is half a kilobyte
		from := make([]v1alpha1.QuestionSource, len(names))
		for i, name := range names {
			from[i].ConfigMapKeyRef.Name = name
		}
		skeleton.Spec.Papers = []v1alpha1.Paper{{QuestionsFrom: from}}
	}
	return skeleton, nil
}

// versionOnly is the transform that keeps of a ConfigMap's metadata what tells it from others and from its own past. What
// kubectl and Argo CD apply from their own side repeats all of its chunks in an annotation.
func versionOnly(object any) (any, error) {
	metadata, ok := object.(*metav1.PartialObjectMetadata)
	if !ok {
		return object, nil // a tombstone: the cache unwraps it
	}
	return &metav1.PartialObjectMetadata{TypeMeta: metadata.TypeMeta, ObjectMeta: metav1.ObjectMeta{
		Name: metadata.Name, Namespace: metadata.Namespace, UID: metadata.UID, ResourceVersion: metadata.ResourceVersion,
	}}, nil
}
