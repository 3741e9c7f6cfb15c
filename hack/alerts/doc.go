// Package alerts checks what the chart tells SREs with: its rules, the runbook page of each alert, and its dashboards. The
// package pins promtool, which runs the rules' unit tests (charts/examprep/alerts/tests); package firing causes each
// alert's condition in real processes. Both are a module of their own, so that Prometheus' requirements never meet those
// of the product.
package alerts
