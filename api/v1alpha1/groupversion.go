package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is examprep.dev/v1alpha1. The generated apply configurations know it as SchemeGroupVersion.
var (
	GroupVersion       = schema.GroupVersion{Group: "examprep.dev", Version: "v1alpha1"} //nolint:gochecknoglobals // a constant in all but syntax
	SchemeGroupVersion = GroupVersion                                                    //nolint:gochecknoglobals // the name that generated code asks for
)

// AddToScheme registers the kinds of this package.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion,
		&ExamContent{}, &ExamContentList{},
		&WebhookEndpoint{}, &WebhookEndpointList{},
		&RateTier{}, &RateTierList{},
	)
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}

// Names that resources and operator agree on.
const (
	// ContentLabel is the label (value "true") of a ConfigMap with chunks of questions. The operator watches only
	// ConfigMaps with this label, and notices a change to another one at the next resync.
	ContentLabel = "examprep.dev/content"
	// Finalizer keeps a resource until the operator has removed or released the published content.
	Finalizer = "examprep.dev/finalizer"
	// ReconcileRequestAnnotation requests a reconcile now, by any new value, usually the time. The value that was handled
	// last is in status.lastHandledReconcileAt.
	ReconcileRequestAnnotation = "reconcile.examprep.dev/requestedAt"
	// RotateRequestAnnotation on a WebhookEndpoint requests another generated signing secret, by any new value, usually the
	// time. For 24 hours both secrets sign. The value that was handled last is in status.lastHandledRotateAt.
	RotateRequestAnnotation = "rotate.examprep.dev/requestedAt"
	// RotateHandledAnnotation on a generated Secret is the request that it was written for. One write stores it together
	// with the secret, so a request is never handled twice.
	RotateHandledAnnotation = "rotate.examprep.dev/handledAt"
	// WebhookAccountsAnnotation on a Namespace lists, one a line, the accounts whose attempts its WebhookEndpoints can
	// receive if the operator runs with --restrict-webhook-accounts; [AllAccounts] for all. The platform's administrators
	// set it: the cluster's own admin, edit and view roles do not allow changes to a Namespace.
	WebhookAccountsAnnotation = "examprep.dev/webhook-accounts"
	// AllAccounts, as a line of [WebhookAccountsAnnotation], allows every account, and endpoints without one.
	AllAccounts = "*"
	// GeneratedSecretSuffix follows a WebhookEndpoint's name in the name of the Secret that the operator generates for it.
	GeneratedSecretSuffix = "-signing-secret"
	// MaxEndpointName is the limit for the name of a WebhookEndpoint without signingSecretRef: 253 characters with the suffix.
	MaxEndpointName = 253 - len(GeneratedSecretSuffix)
	// AdoptsAnnotation on a Namespace lists, one a line, the exam keys that its ExamContents can adopt from resources of
	// other namespaces. * in a key stands for any letters. The operator ignores the annotation with
	// --restrict-adoption=false. The platform's administrators set it, like [WebhookAccountsAnnotation].
	AdoptsAnnotation = "examprep.dev/adopts"
	// ShardLabel is the usual label for the distribution of resources over operators (--shard-selector).
	ShardLabel = "examprep.dev/shard"
)

// Condition types. Ready is always present. Reconciling and Stalled are present only while True, as kstatus expects.
const (
	// ConditionReady reports whether the declared state is in effect.
	ConditionReady = "Ready"
	// ConditionReconciling is True while the operator works towards the declared state, or waits for its next attempt.
	ConditionReconciling = "Reconciling"
	// ConditionStalled is True if the operator can continue only after a change to the resource, or to an object that it
	// refers to.
	ConditionStalled = "Stalled"
	// ConditionAccepted reports whether the resource is valid, and neither another resource nor a restriction prevents it.
	ConditionAccepted = "Accepted"
	// ConditionResolvedRefs reports whether all objects that the resource refers to were found and are valid.
	ConditionResolvedRefs = "ResolvedRefs"
	// ConditionPublished reports whether the declared content is the published revision.
	ConditionPublished = "Published"
	// ConditionRepaired is True after the published revision had been changed in the database and was restored. The author of
	// the change is unknown. The condition is present only then, until the next revision.
	ConditionRepaired = "Repaired"
	// ConditionDelivering reports whether deliveries of a webhook endpoint succeed.
	ConditionDelivering = "Delivering"
)

// Condition reasons.
const (
	// ReasonReady: the declared state is in effect.
	ReasonReady = "Ready"
	// ReasonProgressing: the operator is working, or retries after a temporary failure.
	ReasonProgressing = "Progressing"
	// ReasonSuspended: spec.suspend is set, and the operator changes nothing.
	ReasonSuspended = "Suspended"
	// ReasonAccepted: the resource is valid.
	ReasonAccepted = "Accepted"
	// ReasonInvalid: the resource violates a rule that the API server could not check.
	ReasonInvalid = "Invalid"
	// ReasonExamKeyConflict: another resource owns spec.examKey.
	ReasonExamKeyConflict = "ExamKeyConflict"
	// ReasonAdoptionNotAllowed: spec.adopt is set, and this namespace must not adopt spec.examKey from a resource of
	// another one.
	ReasonAdoptionNotAllowed = "AdoptionNotAllowed"
	// ReasonNameConflict: another resource owns the name that this one needs outside the cluster.
	ReasonNameConflict = "NameConflict"
	// ReasonAccountNotAllowed: endpoints of this namespace must not receive the attempts of spec.account, or of all
	// accounts.
	ReasonAccountNotAllowed = "AccountNotAllowed"
	// ReasonSecretRotated, of events: a generated signing secret was replaced on request.
	ReasonSecretRotated = "SecretRotated"
	// ReasonResolved: all references were found.
	ReasonResolved = "Resolved"
	// ReasonRefNotFound: a referenced object, or a key in it, does not exist.
	ReasonRefNotFound = "RefNotFound"
	// ReasonRefInvalid: a referenced object exists and is wrong: it has another digest, or cannot be decoded.
	ReasonRefInvalid = "RefInvalid"
	// ReasonPublished: the declared content is published.
	ReasonPublished = "Published"
	// ReasonPinned: the revision that spec.revision names is served.
	ReasonPinned = "Pinned"
	// ReasonSealMismatch: a paper's verification seal is missing or does not match its content.
	ReasonSealMismatch = "SealMismatch"
	// ReasonSealUntrusted: a paper's verification seal has no valid signature of a trusted verifier.
	ReasonSealUntrusted = "SealUntrusted"
	// ReasonRevisionNotFound: spec.revision names a revision that does not exist or was pruned, or this resource has published none.
	ReasonRevisionNotFound = "RevisionNotFound"
	// ReasonDriftRepaired: content had been changed in the database and was restored.
	ReasonDriftRepaired = "DriftRepaired"
	// ReasonDrifted: content of the revision that spec.revision names was changed in the database, and no resource declares
	// it.
	ReasonDrifted = "Drifted"
	// ReasonBackendUnavailable: the database is unreachable or returned an error; the operator retries.
	ReasonBackendUnavailable = "BackendUnavailable"
	// ReasonDelivering: the last deliveries succeeded.
	ReasonDelivering = "Delivering"
	// ReasonNoDeliveries: the endpoint had no delivery yet.
	ReasonNoDeliveries = "NoDeliveries"
	// ReasonFailing: deliveries fail and are retried.
	ReasonFailing = "Failing"
	// ReasonFailingLong: deliveries have failed for more than half of the time after which the endpoint is disabled.
	ReasonFailingLong = "FailingLong"
	// ReasonDisabled: the endpoint was disabled because its receiver failed for too long or returned 410 Gone.
	ReasonDisabled = "Disabled"
)
