package chart_test

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// No pod may work on the old database while the new one is filled, nor afterwards, whatever scales it.
func TestARestoreKeepsAutoscalersAwayUntilPodsReadTheNewDatabase(t *testing.T) {
	page := read(t, filepath.Join("..", "..", "docs", "backup.md"))
	block := regexp.MustCompile("(?s)<!-- e2e: restore -->\n```sh\n(.*?)```").FindStringSubmatch(page)
	if block == nil {
		t.Fatal("docs/backup.md has no restore")
	}
	if _, err := command(t, nil, "bash", "-n", "-c", block[1]); err != nil {
		t.Error(err)
	}
	rest := block[1]
	for _, step := range []string{
		"autoscaling.keda.sh/paused=true", "--for=condition=Paused", "--replicas=0", "--for=delete", "pg_restore", "FLUSHDB",
		"kubectl patch secret", "kubectl rollout restart", "--replicas=2", "kubectl rollout status", "autoscaling.keda.sh/paused-",
	} {
		_, after, found := strings.Cut(rest, step)
		if !found {
			t.Fatalf("%q is not there, or not in its place", step)
		}
		rest = after
	}
	scaled := find(t, render(t, "--set", "worker.autoscaling.enabled=true,worker.autoscaling.type=keda,worker.autoscaling.prometheusAddress=http://p:9090"),
		"ScaledObject", "r-examprep-worker")
	for _, label := range []string{"app.kubernetes.io/instance", "app.kubernetes.io/component"} {
		if !strings.Contains(block[1], label) || scaled.text("metadata", "labels", label) == "" {
			t.Errorf("the lines do not find the ScaledObject by %s", label)
		}
	}
}
