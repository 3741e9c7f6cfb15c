package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// EventKind is a kind of event that is delivered to endpoints.
//
// +kubebuilder:validation:Enum=mock_attempt.submitted;mock_attempt.scored;exam.content_updated
type EventKind string

// WebhookEndpointSpec declares an HTTPS receiver of events.
type WebhookEndpointSpec struct {
	// URL is the receiver's address, https only. Deliveries to private and link-local addresses fail unless an
	// administrator allows the range (--webhook-allow-cidr).
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

	// Description is any text; it has no effect.
	//
	// +kubebuilder:validation:MaxLength=500
	// +optional
	Description string `json:"description,omitempty"`

	// Account is the account whose mock-exam attempts are delivered; if empty, all accounts. The operator creates it if it
	// does not exist, so the endpoint can precede the first key (`examprep keys create --account`). If the operator runs
	// with --restrict-webhook-accounts, the namespace's annotation examprep.dev/webhook-accounts must list the account.
	//
	// +kubebuilder:validation:MaxLength=200
	// +kubebuilder:validation:XValidation:rule="self.matches('^[^\\\\p{Cc}]*$')",message="account must not hold control characters, such as a line end or a tab"
	// +kubebuilder:validation:XValidation:rule="!self.matches('^[\\\\p{Z}\\\\p{C}]|[\\\\p{Z}\\\\p{C}]$')",message="account must not begin or end with a blank or an invisible character"
	// +optional
	Account string `json:"account,omitempty"`

	// SigningSecretRef names the Secret of this namespace and the key in it with the signing secret: at least 24
	// characters, not counting a line end after them. Without it, the operator generates a signing secret in the Secret
	// <name>-signing-secret, key "secret", which the resource owns.
	//
	// To rotate a generated signing secret, set the annotation rotate.examprep.dev/requestedAt to a new value, such as the
	// time. To rotate one of your own, change the Secret; the operator reads it every minute. After a change, deliveries
	// are signed with both secrets for 24 hours.
	//
	// +optional
	SigningSecretRef *SecretKeyRef `json:"signingSecretRef,omitempty"`

	// Suspend stops deliveries. Events during this time are not delivered later.
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

// WebhookEndpointStatus reports the registered endpoint and its deliveries.
type WebhookEndpointStatus struct {
	// ObservedGeneration is the metadata.generation from which the operator computed this status; -1 before the first
	// reconcile.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Conditions are Ready (the endpoint is registered as declared), Accepted (the resource is valid), ResolvedRefs
	// (account and Secret were found) and Delivering (deliveries succeed). Reconciling and Stalled are present only while
	// True.
	//
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// ID is the endpoint's identifier in the HTTP API, where it is read-only.
	//
	// +optional
	ID string `json:"id,omitempty"`

	// URL is the address that deliveries are sent to.
	//
	// +optional
	URL string `json:"url,omitempty"`

	// SigningSecret is the name of the Secret with the current signing secret.
	//
	// +optional
	SigningSecret string `json:"signingSecret,omitempty"`

	// FailingSince is the time since which all deliveries fail; absent while deliveries succeed.
	//
	// +optional
	FailingSince *metav1.Time `json:"failingSince,omitempty"`

	// DisablesAt is the time after which another failure disables the endpoint, unless a delivery succeeds before. It is
	// absent while deliveries succeed and after the endpoint is disabled. The operator records a Warning event when half of
	// the time is over.
	//
	// +optional
	DisablesAt *metav1.Time `json:"disablesAt,omitempty"`

	// LastStatus is the HTTP status of the last delivery attempt; absent before the first, and if no response came.
	//
	// +optional
	LastStatus int32 `json:"lastStatus,omitempty"`

	// Backlog is the number of pending deliveries, counted up to 100,000, if the oldest has been pending for a minute; 0
	// otherwise. Like all delivery health, it is updated at a slow interval.
	//
	// +optional
	Backlog int64 `json:"backlog,omitempty"`

	// OldestUndelivered is the time of the event of the oldest pending delivery; absent without a backlog.
	//
	// +optional
	OldestUndelivered *metav1.Time `json:"oldestUndelivered,omitempty"`

	// LastHandledReconcileAt is the last value of the annotation reconcile.examprep.dev/requestedAt that the operator
	// handled.
	//
	// +optional
	LastHandledReconcileAt string `json:"lastHandledReconcileAt,omitempty"`

	// LastHandledRotateAt is the last value of the annotation rotate.examprep.dev/requestedAt for which a new signing
	// secret is in use.
	//
	// +optional
	LastHandledRotateAt string `json:"lastHandledRotateAt,omitempty"`

	// Shard is the --shard-name of the operator that wrote this status, if several operators share the resources.
	//
	// +optional
	Shard string `json:"shard,omitempty"`
}

// WebhookEndpoint registers an HTTPS receiver of signed events.
//
// Each delivery has the header Service-Signature: t=<unix seconds>,v1=<hex HMAC-SHA256 of "<t>.<body>">. Its body is
// {event, created, data, id}. The receiver must return 2xx within 10 seconds. Otherwise the delivery is retried, up
// to 5 times.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=whe,categories=examprep
// +kubebuilder:printcolumn:name="URL",type=string,JSONPath=`.spec.url`,description="Address of the receiver"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="Whether the endpoint is registered as declared"
// +kubebuilder:printcolumn:name="Delivering",type=string,JSONPath=`.status.conditions[?(@.type=="Delivering")].status`,description="Whether deliveries succeed"
// +kubebuilder:printcolumn:name="Backlog",type=integer,JSONPath=`.status.backlog`,description="Pending deliveries"
// +kubebuilder:printcolumn:name="Oldest",type=date,JSONPath=`.status.oldestUndelivered`,priority=1,description="Time of the event of the oldest pending delivery"
// +kubebuilder:printcolumn:name="Failing since",type=date,JSONPath=`.status.failingSince`,priority=1,description="Time since which all deliveries fail"
// +kubebuilder:printcolumn:name="Disables at",type=string,JSONPath=`.status.disablesAt`,priority=1,description="Time after which another failure disables the endpoint"
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,description="Message of the condition Ready"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type WebhookEndpoint struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is the declared receiver.
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
