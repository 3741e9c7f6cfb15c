// Package firing causes, in real processes on real stores, what each of the chart's alerts is about, and has Prometheus'
// own rule engine evaluate the chart's very files over what these processes tell: so an alert's expression fits the series
// and labels that there are. Time runs faster in the engine than outside: a scrape is made every 30 seconds of its time,
// however soon the next one follows.
//
// It needs EXAMPREP_BINARY (make alerts builds it), EXAMPREP_TEST_DATABASE_URL and EXAMPREP_TEST_REDIS_URL; the operator's
// alerts EXAMPREP_TEST_KUBECONFIG as well, of an API server that has the CRDs, and KUBEBUILDER_ASSETS, where kubectl is. hack/dev
// brings all of them up. One alert needs a cluster, where a Job fails: hack/e2e/cluster hands the Job over
// (EXAMPREP_FAILED_JOBS).
package firing
