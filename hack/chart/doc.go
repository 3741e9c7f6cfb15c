// Package chart checks charts/examprep and pins the programs that do it: helm 3 and 4, helm-unittest, kubeconform and,
// in a module of its own because it needs older Kubernetes libraries, kube-score. All of it is tests:
//
//	make chart                          everything, upgrades on a real API server too
//	go -C hack/chart test .             what needs no cluster
//	go -C hack/chart test . -update     and write docs/reference/values.md and the comments of values.yaml
//
// Every rendering is done by the helm program that users run, each version of it. Manifests are compared with schemas
// made from the OpenAPI document of the Kubernetes version that hack/kubernetes pins, and from the resource definitions
// of this project, the Prometheus operator, Gateway API and KEDA.
package chart
