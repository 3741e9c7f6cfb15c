package firing

import (
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/prometheus/common/model"

	"examprep.dev/server/testkit"
)

// TestAlertsOfAMigrationThatFailed uses Jobs of a cluster where a migration failed; `make e2e` provides them. It gives
// Prometheus the two series that kube-state-metrics makes from fields of a Job's status. (Their label for the reason of
// the failure is left out: the rule does not use it.)
func TestAlertsOfAMigrationThatFailed(t *testing.T) {
	file := os.Getenv("EXAMPREP_FAILED_JOBS")
	if file == "" {
		t.Skip("EXAMPREP_FAILED_JOBS is not set: a cluster is needed where a migration failed (E2E_CLUSTER=1 make e2e)")
	}
	text := testkit.ReadFile(t, file)
	var jobs struct {
		Items []struct {
			Metadata struct {
				Name string `json:"name"`
			} `json:"metadata"`
			Status struct {
				Failed    int `json:"failed"`
				Succeeded int `json:"succeeded"`
			} `json:"status"`
		} `json:"items"`
	}
	if err := json.Unmarshal(text, &jobs); err != nil || len(jobs.Items) == 0 {
		t.Fatalf("%d Jobs in %s: %v", len(jobs.Items), file, err)
	}
	p, stateMetrics := newPrometheus(t), &pod{name: "kube-state-metrics", Pod: &testkit.Pod{Metrics: "kube-state-metrics:8080"}}
	p.fire(5*time.Minute, func() {
		var told model.Vector
		for _, job := range jobs.Items {
			name := model.LabelValue(job.Metadata.Name)
			told = append(told,
				&model.Sample{Metric: model.Metric{"__name__": "kube_job_status_failed", "job_name": name}, Value: model.SampleValue(job.Status.Failed)},
				&model.Sample{Metric: model.Metric{"__name__": "kube_job_status_succeeded", "job_name": name}, Value: model.SampleValue(job.Status.Succeeded)})
		}
		p.store(stateMetrics, told)
	}, "ExamprepMigrationFailed")
}
