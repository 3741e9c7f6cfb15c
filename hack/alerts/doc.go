// Package alerts checks what the chart tells SREs with: its rules, by their unit tests (charts/examprep/alerts/tests, in
// promtool's format, by Prometheus' own engine), the runbook page of each alert, and its dashboards. It compares each series
// and label that rules, dashboards, autoscaling and pages name with the metrics that the processes register
// (server/command/testdata/metrics-*.txt). Package firing causes each alert's condition in real processes. Both are a module
// of their own, so that Prometheus' requirements never meet those of the product.
package alerts
