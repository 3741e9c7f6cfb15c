package command

import (
	"bytes"
	"testing"

	"examprep.dev/server/postgres/postgrestest"
	"examprep.dev/server/webhooks"
)

func TestAWorkersConnectionsAreSetUpForQueues(t *testing.T) {
	s := newStage(t)
	worker := s.start("worker")
	for _, setting := range webhooks.PlannerSettings() {
		postgrestest.Eventually(t, setting.Name+" was set", func() bool {
			return bytes.Contains(s.databaseTap.traffic.Bytes(), []byte(setting.Name))
		})
	}
	worker.stop()
}
