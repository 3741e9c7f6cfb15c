package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// RateTierSpec declares a rate limit and the accounts and API keys that have it.
type RateTierSpec struct {
	// Requests is the number of requests that a key can make per period.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000000
	// +required
	Requests int32 `json:"requests"`

	// Period is the time in which an empty bucket gets requests new tokens, at an even rate: whole seconds from 1s to 24h.
	// Default 60s.
	//
	// +kubebuilder:default="60s"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]+[smh])+$') && duration(self) >= duration('1s') && duration(self) <= duration('24h')",message="period must be whole seconds between 1s and 24h, for example 60s"
	// +optional
	Period *metav1.Duration `json:"period,omitempty"`

	// Burst is the size of the token bucket: the number of requests that a key can make at once after a pause. Default:
	// requests.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000000
	// +optional
	Burst *int32 `json:"burst,omitempty"`

	// Accounts are the names of accounts whose keys have this tier, unless a key has a tier of its own.
	//
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=200
	// +kubebuilder:validation:items:XValidation:rule="!self.matches('^[\\\\p{Z}\\\\p{C}]|[\\\\p{Z}\\\\p{C}]$')",message="an account must not begin or end with a blank or an invisible character"
	// +listType=set
	// +optional
	Accounts []string `json:"accounts,omitempty"`

	// KeyPrefixes are the prefixes (service_ and 8 hex digits) of single keys that have this tier. They take precedence
	// over accounts.
	//
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:MaxLength=16
	// +kubebuilder:validation:items:Pattern=`^service_[0-9a-f]{8}$`
	// +listType=set
	// +optional
	KeyPrefixes []string `json:"keyPrefixes,omitempty"`
}

// RateTierStatus reports the state of the operator's work.
type RateTierStatus struct {
	// ObservedGeneration is the metadata.generation from which the operator computed this status; -1 before the first
	// reconcile.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Conditions are Ready (the tier is in effect) and Accepted (the resource is valid and owns the tier's name).
	// Reconciling and Stalled are present only while True.
	//
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// LastHandledReconcileAt is the last value of the annotation reconcile.examprep.dev/requestedAt that the operator
	// handled.
	//
	// +optional
	LastHandledReconcileAt string `json:"lastHandledReconcileAt,omitempty"`

	// Shard is the --shard-name of the operator that wrote this status, if several operators share the resources.
	//
	// +optional
	Shard string `json:"shard,omitempty"`
}

// RateTier raises or lowers the rate limit of accounts or single keys.
//
// The tier has the name of the resource. Keys without another tier have the tier named default; without a resource of this
// name it is 120 requests per 60s. A change takes effect for a busy key within a second.
//
// A key has the tier that `examprep keys tier` gave it. Otherwise it has the tier that lists its prefix, then the tier that
// lists its account, then default. If several tiers list it in the same way, it has the first by name. If a tier is
// deleted, this rule gives its keys another one.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=tier;tiers,categories=examprep
// +kubebuilder:printcolumn:name="Requests",type=integer,JSONPath=`.spec.requests`,description="Allowance per period"
// +kubebuilder:printcolumn:name="Period",type=string,JSONPath=`.spec.period`,description="Time over which the allowance refills"
// +kubebuilder:printcolumn:name="Burst",type=integer,JSONPath=`.spec.burst`,priority=1,description="Size of the bucket"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="Whether the tier is in effect"
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,description="Message of the condition Ready"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type RateTier struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is the declared tier.
	//
	// +required
	Spec RateTierSpec `json:"spec"`

	// Status is written by the operator.
	//
	// +kubebuilder:default:={"observedGeneration":-1}
	// +optional
	Status RateTierStatus `json:"status,omitempty"`
}

// RateTierList is a list of RateTier.
//
// +kubebuilder:object:root=true
type RateTierList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []RateTier `json:"items"`
}
