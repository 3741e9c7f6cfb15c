package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// RateTierSpec declares a rate limit and whom it is for.
type RateTierSpec struct {
	// Requests is the allowance: how many requests a key may make per period.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000000
	// +required
	Requests int32 `json:"requests"`

	// Period is the time over which the allowance refills, evenly: whole seconds between 1s and 24h. Default 60s.
	//
	// +kubebuilder:default="60s"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]+[smh])+$') && duration(self) >= duration('1s') && duration(self) <= duration('24h')",message="period must be whole seconds between 1s and 24h, for example 60s"
	// +optional
	Period *metav1.Duration `json:"period,omitempty"`

	// Burst is the size of the bucket: how many requests may come at once after a pause. Default: requests.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000000
	// +optional
	Burst *int32 `json:"burst,omitempty"`

	// Accounts names the accounts whose keys have this tier, unless a key has one of its own.
	//
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=200
	// +kubebuilder:validation:items:XValidation:rule="!self.matches('^[\\\\p{Z}\\\\p{C}]|[\\\\p{Z}\\\\p{C}]$')",message="an account must not begin or end with a blank or an invisible character"
	// +listType=set
	// +optional
	Accounts []string `json:"accounts,omitempty"`

	// KeyPrefixes names single keys by their prefix (service_ and 8 hex digits); they win over accounts.
	//
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:MaxLength=16
	// +kubebuilder:validation:items:Pattern=`^service_[0-9a-f]{8}$`
	// +listType=set
	// +optional
	KeyPrefixes []string `json:"keyPrefixes,omitempty"`
}

// RateTierStatus is what the operator last saw and did.
type RateTierStatus struct {
	// ObservedGeneration is the metadata.generation that this status tells of; -1 until the operator has seen the resource.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Conditions: Ready (the tier is in effect), Accepted (valid, and the name is this resource's); Reconciling and
	// Stalled only while True.
	//
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// LastHandledReconcileAt is the last value of the annotation reconcile.examprep.dev/requestedAt that was acted on.
	//
	// +optional
	LastHandledReconcileAt string `json:"lastHandledReconcileAt,omitempty"`

	// Shard names the operator that wrote this status, where several share the work (--shard-name).
	//
	// +optional
	Shard string `json:"shard,omitempty"`
}

// RateTier raises or lowers the rate limit of accounts or single keys.
//
// The tier is known by the resource's name. The tier named default (120 requests per 60s unless declared otherwise)
// holds for everyone who has no other. A change reaches a busy key within a second.
//
// Where several tiers name a key, one rule decides: the tier that the key was given itself (examprep keys tier), else the
// one that names its prefix, else the one that names its account, else default; among several of a kind, the first by
// name. When a tier is deleted, its keys have what this rule gives them without it.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=tier;tiers,categories=examprep
// +kubebuilder:printcolumn:name="Requests",type=integer,JSONPath=`.spec.requests`,description="Allowance per period"
// +kubebuilder:printcolumn:name="Period",type=string,JSONPath=`.spec.period`,description="Time over which the allowance refills"
// +kubebuilder:printcolumn:name="Burst",type=integer,JSONPath=`.spec.burst`,priority=1,description="Size of the bucket"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="Whether the tier is in effect"
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,description="What the operator says"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type RateTier struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec declares the tier.
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
