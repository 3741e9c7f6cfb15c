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
	// ContentLabel is the label (value "true") of a ConfigMap that holds chunks of questions. The operator watches no
	// other ConfigMap: a change to one without the label is noticed at the next resync only.
	ContentLabel = "examprep.dev/content"
	// Finalizer keeps a resource until the operator has removed or released the published content.
	Finalizer = "examprep.dev/finalizer"
	// ReconcileRequestAnnotation asks for a reconcile now: any new value does it, a timestamp by custom. The value that
	// was handled last is in status.lastHandledReconcileAt.
	ReconcileRequestAnnotation = "reconcile.examprep.dev/requestedAt"
	// RotateRequestAnnotation on a WebhookEndpoint asks for a new signing secret in place of the one that the operator
	// generated: any new value does it, a timestamp by custom. For 24 hours both secrets sign. The value that was handled
	// last is in status.lastHandledRotateAt.
	RotateRequestAnnotation = "rotate.examprep.dev/requestedAt"
	// RotateHandledAnnotation on a generated Secret is the request that it was written for. It is written with the secret
	// itself, so that a request is never handled twice, whatever is lost in between.
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
	// AdoptsAnnotation on a Namespace lists, one a line, the exam keys that ExamContents in it may adopt from resources of
	// other namespaces, unless the operator runs with --restrict-adoption=false; * in a key stands for any letters. The platform's
	// administrators set it, like [WebhookAccountsAnnotation].
	AdoptsAnnotation = "examprep.dev/adopts"
	// ShardLabel is the label by which resources are customarily spread over operators (--shard-selector).
	ShardLabel = "examprep.dev/shard"
)

// Condition types. Ready is always there; Reconciling and Stalled only while True, as kstatus reads them.
const (
	// ConditionReady reports whether the declared state is in effect.
	ConditionReady = "Ready"
	// ConditionReconciling is True while the operator works towards the declared state or waits to try again.
	ConditionReconciling = "Reconciling"
	// ConditionStalled is True when only a change to the resource, or to an object that it refers to, can help.
	ConditionStalled = "Stalled"
	// ConditionAccepted reports whether the declaration is valid and this resource may make it.
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
	// ReasonReady: all is as declared.
	ReasonReady = "Ready"
	// ReasonProgressing: work is under way, or is tried again after a passing fault.
	ReasonProgressing = "Progressing"
	// ReasonSuspended: spec.suspend is set; nothing is changed meanwhile.
	ReasonSuspended = "Suspended"
	// ReasonAccepted: the declaration is valid.
	ReasonAccepted = "Accepted"
	// ReasonInvalid: the declaration breaks a rule that the API server could not check.
	ReasonInvalid = "Invalid"
	// ReasonExamKeyConflict: another resource owns spec.examKey.
	ReasonExamKeyConflict = "ExamKeyConflict"
	// ReasonAdoptionNotAllowed: spec.adopt is set, and the namespace may not adopt spec.examKey from another one's resource.
	ReasonAdoptionNotAllowed = "AdoptionNotAllowed"
	// ReasonNameConflict: another resource owns the name that this one would take outside the cluster.
	ReasonNameConflict = "NameConflict"
	// ReasonAccountNotAllowed: the namespace may not receive the attempts of spec.account, or of all accounts.
	ReasonAccountNotAllowed = "AccountNotAllowed"
	// ReasonSecretRotated, of events: a generated signing secret was replaced on request.
	ReasonSecretRotated = "SecretRotated"
	// ReasonResolved: all references were found.
	ReasonResolved = "Resolved"
	// ReasonRefNotFound: a referenced object, or a key in it, is not there.
	ReasonRefNotFound = "RefNotFound"
	// ReasonRefInvalid: a referenced object is there but is not what it should be: wrong digest, not decodable.
	ReasonRefInvalid = "RefInvalid"
	// ReasonPublished: the declared content is published.
	ReasonPublished = "Published"
	// ReasonPinned: spec.revision holds an earlier revision in place.
	ReasonPinned = "Pinned"
	// ReasonSealMismatch: a paper's verification seal is missing or is not that of the paper.
	ReasonSealMismatch = "SealMismatch"
	// ReasonSealUntrusted: a paper's verification seal lacks a signature that one of the trusted verifiers made of it.
	ReasonSealUntrusted = "SealUntrusted"
	// ReasonRevisionNotFound: spec.revision names a revision that does not exist or was pruned.
	ReasonRevisionNotFound = "RevisionNotFound"
	// ReasonDriftRepaired: content had been changed in the database and was restored.
	ReasonDriftRepaired = "DriftRepaired"
	// ReasonDrifted: content that spec.revision asks for was changed in the database, and no resource declares it now.
	ReasonDrifted = "Drifted"
	// ReasonBackendUnavailable: the database could not be reached or refused; it is tried again.
	ReasonBackendUnavailable = "BackendUnavailable"
	// ReasonDelivering: the last deliveries succeeded.
	ReasonDelivering = "Delivering"
	// ReasonNoDeliveries: nothing was delivered yet.
	ReasonNoDeliveries = "NoDeliveries"
	// ReasonFailing: deliveries fail and are tried again.
	ReasonFailing = "Failing"
	// ReasonFailingLong: deliveries have failed for more than half of the time after which the endpoint is disabled.
	ReasonFailingLong = "FailingLong"
	// ReasonDisabled: the endpoint was disabled because its receiver failed for too long or said that it is gone.
	ReasonDisabled = "Disabled"
)
