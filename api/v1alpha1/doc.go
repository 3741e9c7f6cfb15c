// Package v1alpha1 holds the custom resources of the group examprep.dev: ExamContent, WebhookEndpoint and RateTier.
//
// A platform team writes them in git. The API server checks them by the schema and its CEL rules. The operator checks the
// rest, like a chunk in a ConfigMap or another resource's claim, and reports the field in a condition.
//
// Programs that use the API import this package. So it imports apimachinery and the JSON type of the schema alone, and
// nothing below controllers or server.
//
// CONTRIBUTING.md, "Add a field to ExamContent", lists the places of a new field. `make generate` copies the doc comments
// into the CRDs, where `kubectl explain` shows them. docs/exams.md, "Seals", describes what happens to a paper whose seal
// is wrong.
//
// +kubebuilder:object:generate=true
// +kubebuilder:ac:generate=true
// +groupName=examprep.dev
package v1alpha1
