package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// EventKind names what an endpoint is told of.
//
// +kubebuilder:validation:Enum=mock_attempt.submitted;mock_attempt.scored;exam.content_updated
type EventKind string

// WebhookEndpointSpec declares an HTTPS receiver of events.
type WebhookEndpointSpec struct {
	// URL is the receiver's address, https only. Addresses in private and link-local ranges are refused when they are
	// dialled, unless an administrator allowed the range (--webhook-allow-cidr).
	//
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:XValidation:rule="isURL(self) && url(self).getScheme() == 'https' && url(self).getHostname() != ''",message="url must be an https:// address with a host name"
	// +kubebuilder:validation:XValidation:rule="!self.contains('#') && !self.matches('^https://[^/?#]*@')",message="url must not hold credentials or a fragment: the signature is what a receiver trusts"
	// +kubebuilder:validation:XValidation:rule="self.trim() == self && !self.matches('[\\\\p{C}\\\\p{Zl}\\\\p{Zp}]')",message="url must not have a blank at its ends or an invisible character"
	// +kubebuilder:validation:XValidation:rule="!self.matches('^[^/?#]*//([.]|[^/?#]*[.][.])')",message="url must not have an empty label in its host"
	// +required
	URL string `json:"url"`

	// Events are the kinds of event to deliver: mock_attempt.submitted, mock_attempt.scored, exam.content_updated.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=3
	// +listType=set
	// +required
	Events []EventKind `json:"events"`

	// Description is free text for people.
	//
	// +kubebuilder:validation:MaxLength=500
	// +optional
	Description string `json:"description,omitempty"`

	// Account names the account whose attempts are told of. Left out: everyone's. One of that name is made if there is
	// none, so that the endpoint may be declared before the first key (`examprep keys create --account`). Where whoever runs
	// the platform restricts it, it must be one of those that the namespace's annotation examprep.dev/webhook-accounts lists.
	//
	// +kubebuilder:validation:MaxLength=200
	// +kubebuilder:validation:XValidation:rule="self.matches('^[^\\\\p{Cc}]*$')",message="account must not hold control characters, such as a line end or a tab"
	// +kubebuilder:validation:XValidation:rule="!self.matches('^[\\\\p{Z}\\\\p{C}]|[\\\\p{Z}\\\\p{C}]$')",message="account must not begin or end with a blank or an invisible character"
	// +optional
	Account string `json:"account,omitempty"`

	// SigningSecretRef names a Secret of this namespace and the key in it that hold the signing secret, at least 24
	// characters; a line end behind it does not count. Left out: the operator generates one and writes it to the Secret
	// <name>-signing-secret, key "secret", which the resource owns. After a change the old secret signs beside the new
	// one for 24 hours. To rotate a generated one, give the resource the annotation rotate.examprep.dev/requestedAt with a
	// value that it did not have before, such as the time; to rotate one of your own, change the Secret: it is looked at
	// every minute.
	//
	// +optional
	SigningSecretRef *SecretKeyRef `json:"signingSecretRef,omitempty"`

	// Suspend stops deliveries: events that happen meanwhile are not delivered later.
	//
	// +optional
	Suspend bool `json:"suspend,omitempty"`
}

// SecretKeyRef names a key of a Secret in the resource's own namespace.
type SecretKeyRef struct {
	// Name of the Secret.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	// +required
	Name string `json:"name"`

	// Key in its data. Default secret.
	//
	// +kubebuilder:default=secret
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[-._a-zA-Z0-9]+$`
	// +optional
	Key string `json:"key,omitempty"`
}

// WebhookEndpointStatus is what the operator last saw and did.
type WebhookEndpointStatus struct {
	// ObservedGeneration is the metadata.generation that this status tells of; -1 until the operator has seen the resource.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Conditions: Ready (the endpoint is registered as declared), Accepted (valid), ResolvedRefs (account and secret
	// found), Delivering (deliveries succeed); Reconciling and Stalled only while True.
	//
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// ID is the endpoint's identifier in the HTTP API, where it is read-only.
	//
	// +optional
	ID string `json:"id,omitempty"`

	// URL is the address that deliveries go to.
	//
	// +optional
	URL string `json:"url,omitempty"`

	// SigningSecret names the Secret that holds the signing secret in use.
	//
	// +optional
	SigningSecret string `json:"signingSecret,omitempty"`

	// FailingSince is when deliveries began to fail without a success since; absent while they succeed.
	//
	// +optional
	FailingSince *metav1.Time `json:"failingSince,omitempty"`

	// DisablesAt is from when on another failure disables the endpoint, unless a delivery succeeds; absent while
	// deliveries succeed, and once it is disabled. A Warning event tells of it when half of the time is over.
	//
	// +optional
	DisablesAt *metav1.Time `json:"disablesAt,omitempty"`

	// LastStatus is the HTTP status of the last try; absent before the first, and when no answer came.
	//
	// +optional
	LastStatus int32 `json:"lastStatus,omitempty"`

	// Backlog is how many deliveries are pending, once the oldest has been for a minute, counted up to 100,000. Like all
	// of the delivery health it is brought up to date at a slow interval.
	//
	// +optional
	Backlog int64 `json:"backlog,omitempty"`

	// OldestUndelivered is when the oldest pending delivery was caused; absent without a backlog.
	//
	// +optional
	OldestUndelivered *metav1.Time `json:"oldestUndelivered,omitempty"`

	// LastHandledReconcileAt is the last value of the annotation reconcile.examprep.dev/requestedAt that was acted on.
	//
	// +optional
	LastHandledReconcileAt string `json:"lastHandledReconcileAt,omitempty"`

	// LastHandledRotateAt is the last value of the annotation rotate.examprep.dev/requestedAt for which a new signing
	// secret is in effect.
	//
	// +optional
	LastHandledRotateAt string `json:"lastHandledRotateAt,omitempty"`

	// Shard names the operator that wrote this status, where several share the work (--shard-name).
	//
	// +optional
	Shard string `json:"shard,omitempty"`
}

// WebhookEndpoint registers an HTTPS receiver of signed events.
//
// Each delivery carries the header Service-Signature (t=<unix seconds>,v1=<hex HMAC-SHA256 of "<t>.<body>">) and a body
// {event, created, data, id}. A receiver answers 2xx within 10 seconds; anything else is tried again, up to 5 times.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=whe,categories=examprep
// +kubebuilder:printcolumn:name="URL",type=string,JSONPath=`.spec.url`,description="Where deliveries go"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="Whether the endpoint is registered as declared"
// +kubebuilder:printcolumn:name="Delivering",type=string,JSONPath=`.status.conditions[?(@.type=="Delivering")].status`,description="Whether deliveries succeed"
// +kubebuilder:printcolumn:name="Backlog",type=integer,JSONPath=`.status.backlog`,description="Pending deliveries"
// +kubebuilder:printcolumn:name="Oldest",type=date,JSONPath=`.status.oldestUndelivered`,priority=1,description="Since when the oldest pending delivery waits"
// +kubebuilder:printcolumn:name="Failing since",type=date,JSONPath=`.status.failingSince`,priority=1,description="Since when deliveries fail"
// +kubebuilder:printcolumn:name="Disables at",type=string,JSONPath=`.status.disablesAt`,priority=1,description="From when on another failure disables the endpoint"
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,description="What the operator says"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type WebhookEndpoint struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec declares the receiver.
	//
	// +required
	Spec WebhookEndpointSpec `json:"spec"`

	// Status is written by the operator.
	//
	// +kubebuilder:default:={"observedGeneration":-1}
	// +optional
	Status WebhookEndpointStatus `json:"status,omitempty"`
}

// WebhookEndpointList is a list of WebhookEndpoint.
//
// +kubebuilder:object:root=true
type WebhookEndpointList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []WebhookEndpoint `json:"items"`
}
