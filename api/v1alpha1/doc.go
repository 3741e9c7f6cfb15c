// Package v1alpha1 holds the custom resources of the group examprep.dev: ExamContent, WebhookEndpoint and RateTier.
//
// They are the product's front door: a platform team writes them in git, and the API server refuses what the schema and
// its CEL rules can see to be wrong, with a message that says what to do. What they cannot see (a chunk in a ConfigMap,
// another resource's claim) the operator validates and reports in a condition, named to the field.
//
// The package is imported by people who program against the API, so it depends on apimachinery and the schema's JSON
// type alone; it must never import the operator or anything below server.
//
// +kubebuilder:object:generate=true
// +kubebuilder:ac:generate=true
// +groupName=examprep.dev
package v1alpha1
